//! RAII guards that restore the thread's current context and its capture mode.

use std::marker::PhantomData;

use super::Driver;

/// Guard that restores the thread's previous context when dropped.
#[must_use]
pub(crate) struct Entered<'driver> {
    pub(super) driver: &'driver Driver,
    pub(super) is_pushed: bool,
    /// Keeps the guard on its thread, whose context it restores.
    pub(super) of_thread: PhantomData<*const ()>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.is_pushed {
            let mut context = std::ptr::null_mut();
            // SAFETY: `cuCtxPopCurrent` writes one pointer to `context`, an initialised local.
            // `Driver::enter` has pushed a context on this thread, and this call pops it. The
            // guard is not `Send`, so it is dropped on the thread that pushed. All guards are local
            // variables, so they are dropped in reverse order.
            unsafe { (self.driver.pop_context)(&raw mut context) };
        }
    }
}

/// Guard of [`Driver::beside_captures`], which restores the thread's capture mode when dropped.
#[must_use]
pub(crate) struct BesideCaptures<'driver> {
    pub(super) driver: &'driver Driver,
    /// Previous capture mode. `None` if the mode was not changed.
    pub(super) mode: Option<i32>,
    /// Keeps the guard on its thread, whose mode it restores.
    pub(super) of_thread: PhantomData<*const ()>,
}

impl Drop for BesideCaptures<'_> {
    fn drop(&mut self) {
        if let (Some(mut mode), Some(exchange)) = (self.mode, self.driver.exchange_capture_mode) {
            // SAFETY: the function reads and writes one `i32`, and `mode` is an initialised local.
            // The value is the mode that the driver returned earlier, so it is valid.
            unsafe { exchange(&raw mut mode) };
        }
    }
}
