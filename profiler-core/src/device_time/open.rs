//! The windows that are open on a thread.

use std::cell::RefCell;

use super::DeviceWindow;
use crate::Action;

/// Windows that a thread can have open. A program that forgets guards has no end of them.
const MOST_OPEN: usize = 1024;

/// The call of an action, and its windows: none where it is inside a call of the same action.
struct Call {
    profiler: u64,
    action: Action,
    windows: Vec<Box<dyn DeviceWindow>>,
}

/// The calls that are open on a thread, the innermost last.
struct Calls(Vec<Call>);

impl Drop for Calls {
    /// What is still open when the thread ends is never closed: hooks and the recorder have thread-locals of
    /// their own, which may be gone by then.
    fn drop(&mut self) {
        self.0.drain(..).for_each(|call| std::mem::forget(call.windows));
    }
}

thread_local! {
    static OPEN: RefCell<Calls> = const { RefCell::new(Calls(Vec::new())) };
}

/// Keeps what `open` returns until the call ends. `open` is not called where the thread has a call of the
/// same action open, for the same profiler, or is inside `open` already.
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
    // Nothing is borrowed while hooks run: a hook may open a scope of its own.
    let Ok(Some(is_recursive)) = is_recursive else { return };
    let windows = if is_recursive { Vec::new() } else { open() };
    let mut call = Some(Call { profiler, action, windows });
    let _ = OPEN.try_with(|calls| {
        if let (Ok(mut calls), Some(call)) = (calls.try_borrow_mut(), call.take()) {
            calls.0.push(call);
        }
    });
}

/// Returns the windows of the innermost call of `action`, for the caller to close.
pub(super) fn pop(profiler: u64, action: Action) -> Vec<Box<dyn DeviceWindow>> {
    let popped = OPEN.try_with(|calls| {
        let mut calls = calls.try_borrow_mut().ok()?;
        let is_own = |call: &Call| call.profiler == profiler && call.action == action;
        let place = calls.0.iter().rposition(is_own)?;
        Some(calls.0.remove(place).windows)
    });
    popped.ok().flatten().unwrap_or_default()
}
