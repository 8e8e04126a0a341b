//! All contexts in which regions were opened.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::Context;
use super::delivery::deliver;
use crate::driver::{Driver, Failure, Handle};
use mlprof_core::hook;
use mlprof_events::uncounted;

static CONTEXTS: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());
/// Id of the process that created the contexts. A forked child cannot use them.
static PROCESS: AtomicU32 = AtomicU32::new(0);

fn contexts() -> MutexGuard<'static, Vec<Arc<Context>>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Returns the state of a context, which must be current on the thread.
pub(super) fn context(driver: &Driver, handle: Handle) -> Result<Arc<Context>, Failure> {
    let mut contexts = contexts();
    if let Some(known) = contexts.iter().find(|known| known.handle == handle) {
        return Ok(known.clone());
    }
    let number = contexts.len() as u32 + 1;
    let context = uncounted(|| Context::new(driver, handle, number).map(Arc::new))?;
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    hook::add_region_delivery(deliver_all);
    uncounted(|| contexts.push(context.clone()));
    Ok(context)
}

/// Waits for all pending regions and reports them to their profilers.
fn deliver_all() {
    /// Only one thread delivers at a time. A second thread waits and then finds all regions
    /// delivered.
    static DELIVERING: Mutex<()> = Mutex::new(());
    thread_local!(static IS_DELIVERING: Cell<bool> = const { Cell::new(false) });

    if PROCESS.load(Ordering::Relaxed) != std::process::id() || IS_DELIVERING.get() {
        return;
    }
    let Ok(driver) = Driver::get() else { return };
    let _one = DELIVERING.lock().unwrap_or_else(PoisonError::into_inner);
    IS_DELIVERING.set(true);
    let all = uncounted(|| contexts().clone());
    for context in all {
        deliver(uncounted(|| context.finish(driver)));
    }
    IS_DELIVERING.set(false);
}
