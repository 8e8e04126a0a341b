//! All contexts in which regions were opened, and how their regions come to the profilers.

use std::cell::Cell;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::context::Context;
use crate::allocation::uncounted;
use crate::cuda::driver::{Driver, Failure, Handle};
use crate::hook::{self, DeviceEvent, RegionSink};

static CONTEXTS: Mutex<Vec<Arc<Context>>> = Mutex::new(Vec::new());
/// The process that the contexts are of: a forked child can use none of them.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static MAX_PENDING: AtomicUsize = AtomicUsize::new(4096);

/// How many regions may be under way in each context: open, or not read yet.
pub fn max_pending_regions() -> usize {
    MAX_PENDING.load(Ordering::Relaxed)
}

/// Allows so many regions to be under way in each context, 4096 by default. Further ones have no
/// device time, which the report says. *Memory*: two events of CUDA's and about 100 bytes for each
/// that ever was.
pub fn set_max_pending_regions(count: usize) {
    MAX_PENDING.store(count, Ordering::Relaxed);
}

/// A region that was timed, or was not, and whom to tell.
pub(super) struct Delivery {
    pub(super) sink: Arc<dyn RegionSink>,
    /// What ran and for how many nanoseconds; or why that is not known.
    pub(super) what: Result<(DeviceEvent, u64), Failure>,
}

/// Tells the profilers. To be called with no lock held.
pub(super) fn deliver(deliveries: Vec<Delivery>) {
    if deliveries.is_empty() {
        return;
    }
    uncounted(|| {
        for Delivery { sink, what } in deliveries {
            match what {
                Ok((event, nanoseconds)) => sink.region(&event, nanoseconds),
                Err(failure) => sink.lost(&failure.to_string()),
            }
        }
    });
}

fn contexts() -> MutexGuard<'static, Vec<Arc<Context>>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept of a context, in which the thread works.
pub(super) fn context(driver: &Driver, handle: Handle) -> Result<Arc<Context>, Failure> {
    let mut contexts = contexts();
    if let Some(known) = contexts.iter().find(|known| known.handle == handle) {
        return Ok(known.clone());
    }
    let number = contexts.len() as u32 + 1;
    let context = uncounted(|| Context::new(driver, handle, number).map(Arc::new))?;
    PROCESS.store(std::process::id(), Ordering::Relaxed);
    hook::set_region_delivery(deliver_all);
    uncounted(|| contexts.push(context.clone()));
    Ok(context)
}

/// Waits for all regions whose guards have been dropped, and tells the profilers.
fn deliver_all() {
    /// One at a time: who comes second finds everything delivered.
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
