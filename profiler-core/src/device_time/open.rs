//! Windows that are open on a thread.

use std::cell::RefCell;

use super::DeviceWindow;
use crate::Action;

/// Maximum number of open calls per thread. It limits the memory of a program that never drops its
/// guards.
const MOST_OPEN: usize = 1024;

/// Call of an action with its windows. A call nested in a call of the same action has no windows.
struct Call {
    profiler: u64,
    action: Action,
    windows: Vec<Box<dyn DeviceWindow>>,
}

/// Open calls of a thread, the innermost last.
struct Calls(Vec<Call>);

impl Drop for Calls {
    /// Leaks the windows that are still open when the thread ends. Closing them would use
    /// thread-locals of hooks and of the recorder, which may already be destroyed.
    fn drop(&mut self) {
        self.0.drain(..).for_each(|call| std::mem::forget(call.windows));
    }
}

thread_local! {
    static OPEN: RefCell<Calls> = const { RefCell::new(Calls(Vec::new())) };
}

/// Calls `open` and stores its windows until the call ends. If this thread already has a call of
/// the same action open for the same profiler, the new call is stored without windows. If
/// [`MOST_OPEN`] calls are open, the new call is ignored.
pub(super) fn push(
    profiler: u64,
    action: Action,
    open: impl FnOnce() -> Vec<Box<dyn DeviceWindow>>,
) {
    let is_recursive = OPEN.try_with(|calls| {
        let calls = calls.try_borrow().ok()?;
        let is_own = |call: &Call| call.profiler == profiler && call.action == action;
        (calls.0.len() < MOST_OPEN).then(|| calls.0.iter().any(is_own))
    });
    // The stack is not borrowed while hooks run, because a hook may open a scope of its own.
    let Ok(Some(is_recursive)) = is_recursive else { return };
    let windows = if is_recursive { Vec::new() } else { open() };
    let mut call = Some(Call { profiler, action, windows });
    let _ = OPEN.try_with(|calls| {
        if let (Ok(mut calls), Some(call)) = (calls.try_borrow_mut(), call.take()) {
            calls.0.push(call);
        }
    });
}

/// Returns the windows of the innermost call of `action`, which the caller then closes.
pub(super) fn pop(profiler: u64, action: Action) -> Vec<Box<dyn DeviceWindow>> {
    let popped = OPEN.try_with(|calls| {
        let mut calls = calls.try_borrow_mut().ok()?;
        let is_own = |call: &Call| call.profiler == profiler && call.action == action;
        let place = calls.0.iter().rposition(is_own)?;
        Some(calls.0.remove(place).windows)
    });
    popped.ok().flatten().unwrap_or_default()
}
