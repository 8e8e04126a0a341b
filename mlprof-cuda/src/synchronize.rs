//! Waiting for all work of the devices.

use super::driver::{Driver, Handle};

impl Driver {
    /// Waits for the thread's current context and for every active primary context, because
    /// frameworks use primary contexts. Contexts that cannot be waited for, for example during a
    /// capture, are skipped.
    pub(crate) fn wait_for_devices(&self) {
        let _undisturbed = self.beside_captures();
        if self.current_context().is_ok_and(|context| !context.is_null()) {
            self.wait_for_context();
        }
        for number in 0..self.device_count().unwrap_or(0) {
            if let Ok(device) = self.device(number)
                && self.has_primary_context(device)
            {
                self.with_primary_context(device, || self.wait_for_context());
            }
        }
    }

    fn wait_for_context(&self) {
        if let Some(synchronize) = self.synchronize_context {
            // SAFETY: the function takes no arguments, and any thread may call it. The error is
            // ignored, because the program's own next call returns it too.
            unsafe { synchronize() };
        }
    }

    fn has_primary_context(&self, device: i32) -> bool {
        let (mut flags, mut is_active) = (0, 0);
        let Some(state) = self.primary_state else { return false };
        // SAFETY: the function writes one `u32` and one `i32` to initialised locals. The driver
        // rejects an invalid device.
        unsafe { state(device, &raw mut flags, &raw mut is_active) == 0 && is_active != 0 }
    }

    fn with_primary_context(&self, device: i32, work: impl FnOnce()) {
        let mut context: Handle = std::ptr::null_mut();
        // SAFETY: the function writes one pointer to `context`, an initialised local. The driver
        // rejects an invalid device.
        if unsafe { (self.retain_primary)(&raw mut context, device) } != 0 {
            return;
        }
        // SAFETY: the retain call above keeps the context alive until the release call below. The
        // guard is dropped before that.
        if let Ok(_entered) = unsafe { self.enter(context) } {
            work();
        }
        if let Some(release) = self.release_primary.or(self.release_primary_before_11) {
            // SAFETY: the retain call above succeeded, so this call releases exactly that
            // reference. The context is not used afterwards.
            unsafe { release(device) };
        }
    }
}
