//! What is undone at the end of a block: the thread's context, and what its calls do to captures.

use super::Driver;

/// The calling thread works in a context; in the one before again when this is dropped.
#[must_use]
pub(crate) struct Entered<'driver> {
    pub(super) driver: &'driver Driver,
    pub(super) is_pushed: bool,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if self.is_pushed {
            let mut context = std::ptr::null_mut();
            // SAFETY: takes back what `Driver::enter` has pushed; room for the answer.
            unsafe { (self.driver.pop_context)(&raw mut context) };
        }
    }
}

/// See [`Driver::beside_captures`].
#[must_use]
pub(crate) struct BesideCaptures<'driver> {
    pub(super) driver: &'driver Driver,
    /// The one before.
    pub(super) mode: Option<i32>,
}

impl Drop for BesideCaptures<'_> {
    fn drop(&mut self) {
        if let (Some(mut mode), Some(exchange)) = (self.mode, self.driver.exchange_capture_mode) {
            // SAFETY: room for the mode.
            unsafe { exchange(&raw mut mode) };
        }
    }
}
