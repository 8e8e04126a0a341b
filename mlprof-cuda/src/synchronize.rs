//! Until the devices have done all they were given.

use super::driver::{Driver, Handle};

impl Driver {
    /// Waits for the calling thread's context, and for the primary one of every device that has one:
    /// those are what frameworks work in. What cannot be waited for, as during a capture, is not.
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
            // SAFETY: any thread may call it. What went wrong the program will be told by its own
            // next call.
            unsafe { synchronize() };
        }
    }

    fn has_primary_context(&self, device: i32) -> bool {
        let (mut flags, mut is_active) = (0, 0);
        let Some(state) = self.primary_state else { return false };
        // SAFETY: room for both answers.
        unsafe { state(device, &raw mut flags, &raw mut is_active) == 0 && is_active != 0 }
    }

    fn with_primary_context(&self, device: i32, work: impl FnOnce()) {
        let mut context: Handle = std::ptr::null_mut();
        // SAFETY: room for the answer.
        if unsafe { (self.retain_primary)(&raw mut context, device) } != 0 {
            return;
        }
        // SAFETY: it is kept until it is released below.
        if let Ok(_entered) = unsafe { self.enter(context) } {
            work();
        }
        if let Some(release) = self.release_primary.or(self.release_primary_before_11) {
            // SAFETY: kept once, released once.
            unsafe { release(device) };
        }
    }
}
