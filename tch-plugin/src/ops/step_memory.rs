//! Tracks the memory that an optimizer step uses, as reported by libtorch.

use std::cell::RefCell;

use mlprof_core::hook::{MemoryChange, MemoryDevice};
use rustc_hash::{FxHashMap, FxHashSet};

/// The memory behind a tensor, which several tensors may share.
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
    /// The optimizer step that runs on this thread, if any.
    static STEP: RefCell<Option<Step>> = const { RefCell::new(None) };
}

/// Memory that an optimizer step uses.
#[derive(Default)]
pub(super) struct Step {
    /// Places of variables and gradients.
    pub(super) trained: FxHashSet<(u64, MemoryDevice)>,
    /// Memory that was allocated during the step and not freed yet.
    pub(super) allocated: Vec<Storage>,
    /// Memory that an op read and that is not freed yet, with its size in bytes.
    pub(super) read: FxHashMap<(u64, MemoryDevice), u64>,
}

/// Begins a step on the calling thread.
pub(super) fn begin(step: Step) {
    let _ = STEP.try_with(|current| *current.borrow_mut() = Some(step));
}

/// Ends the calling thread's step and returns its memory.
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

/// Records an allocation or a free on the calling thread.
#[cfg_attr(not(records_ops), expect(dead_code, reason = "used only by the recorder"))]
pub(super) fn see(change: &MemoryChange) {
    with_step(|step| {
        let MemoryChange { address, device, .. } = *change;
        match u64::try_from(change.bytes) {
            Ok(bytes) => step.allocated.push(Storage { address, bytes, device }),
            Err(_) => {
                step.read.remove(&(address, device));
                // The search starts at the end, because a freed block is usually one of the last.
                let place = |other: &Storage| other.place() == (address, device);
                if let Some(freed) = step.allocated.iter().rposition(place) {
                    step.allocated.swap_remove(freed);
                }
            }
        }
    });
}

/// Records that an op on the calling thread reads this memory.
#[cfg_attr(not(records_ops), expect(dead_code, reason = "used only by the recorder"))]
pub(super) fn see_read(storage: Storage) {
    with_step(|step| {
        step.read.insert(storage.place(), storage.bytes);
    });
}
