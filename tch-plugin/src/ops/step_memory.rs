//! What memory the step of an optimizer has to do with, as libtorch tells of it.

use std::cell::RefCell;

use mlprof_core::hook::{MemoryChange, MemoryDevice};
use rustc_hash::{FxHashMap, FxHashSet};

/// The memory behind a tensor, which several may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) device: MemoryDevice,
}

impl Storage {
    pub(super) fn place(&self) -> (u64, MemoryDevice) {
        (self.address, self.device)
    }
}

thread_local! {
    /// The optimizer's step that the thread is in.
    static STEP: RefCell<Option<Step>> = const { RefCell::new(None) };
}

/// What memory a step of an optimizer has to do with.
#[derive(Default)]
pub(super) struct Step {
    /// Variables and gradients.
    pub(super) trained: FxHashSet<(u64, MemoryDevice)>,
    /// Allocated since the step began, and not freed yet.
    pub(super) allocated: Vec<Storage>,
    /// Read by an op and not freed yet, with its bytes.
    pub(super) read: FxHashMap<(u64, MemoryDevice), u64>,
}

/// A step begins on the calling thread.
pub(super) fn begin(step: Step) {
    let _ = STEP.try_with(|current| *current.borrow_mut() = Some(step));
}

/// The calling thread's step is over: what it had to do with.
pub(super) fn end() -> Step {
    let step = STEP.try_with(|current| current.borrow_mut().take());
    step.ok().flatten().unwrap_or_default()
}

fn with_step(work: impl FnOnce(&mut Step)) {
    let _ = STEP.try_with(|current| {
        if let Ok(mut current) = current.try_borrow_mut()
            && let Some(step) = current.as_mut()
        {
            work(step);
        }
    });
}

/// Memory was allocated or freed on the calling thread.
#[cfg_attr(not(records_ops), expect(dead_code, reason = "nobody calls"))]
pub(super) fn see(change: &MemoryChange) {
    with_step(|step| {
        let MemoryChange { address, device, .. } = *change;
        match u64::try_from(change.bytes) {
            Ok(bytes) => step.allocated.push(Storage { address, bytes, device }),
            Err(_) => {
                step.read.remove(&(address, device));
                // Nearly always one of the last.
                let place = |other: &Storage| other.place() == (address, device);
                if let Some(freed) = step.allocated.iter().rposition(place) {
                    step.allocated.swap_remove(freed);
                }
            }
        }
    });
}

/// An op on the calling thread reads this memory.
#[cfg_attr(not(records_ops), expect(dead_code, reason = "nobody calls"))]
pub(super) fn see_read(storage: Storage) {
    with_step(|step| {
        step.read.insert(storage.place(), storage.bytes);
    });
}
