//! What memory is for.

use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use profiler_core::Interest;
use profiler_core::hook::{self, MemoryCategory, MemoryChange, MemoryDevice, MemoryLabel};
use tch::Tensor;
use tch::nn::Variables;

use super::foreign;

/// The memory behind a tensor, which several may share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage {
    pub(super) address: u64,
    pub(super) bytes: u64,
    pub(super) device: MemoryDevice,
}

/// The variables of stores that are trained.
static KNOWN: Mutex<Vec<Weak<Mutex<Variables>>>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Weak<Mutex<Variables>>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_wanted() -> bool {
    hook::interest().contains(Interest::MEMORY)
}

/// From here on the variables of this store are known for what they are.
pub(crate) fn follow(variables: &Arc<Mutex<Variables>>) {
    let mut known = known();
    known.retain(|other| other.strong_count() > 0);
    if !known.iter().any(|other| other.as_ptr() == Arc::as_ptr(variables)) {
        known.push(Arc::downgrade(variables));
    }
    drop(known);
    if is_wanted() {
        label_all(variables);
    }
}

/// Labels all variables and gradients that there are: a recording begins.
pub(super) fn label_known() {
    let known: Vec<_> = known().iter().filter_map(Weak::upgrade).collect();
    for variables in known {
        label_all(&variables);
    }
}

fn label_all(variables: &Mutex<Variables>) {
    // Somebody may hold them who is waiting for this recording to begin.
    let Ok(variables) = variables.try_lock() else { return };
    for tensor in variables.named_variables.values() {
        label(tensor, false, MemoryCategory::Parameter);
        label(tensor, true, MemoryCategory::Gradient);
    }
}

/// Labels variables and their gradients, which are made anew in each step.
pub(crate) fn label_variables<'variables>(tensors: impl IntoIterator<Item = &'variables Tensor>) {
    if is_wanted() {
        for tensor in tensors {
            label(tensor, false, MemoryCategory::Parameter);
            label(tensor, true, MemoryCategory::Gradient);
        }
    }
}

/// Labels a part of a batch.
pub(crate) fn label_input(tensor: &Tensor) {
    if is_wanted() {
        label(tensor, false, MemoryCategory::Input);
    }
}

fn label(tensor: &Tensor, of_gradient: bool, category: MemoryCategory) {
    if let Some(storage) = foreign::storage(tensor, of_gradient) {
        tell(storage, category);
    }
}

fn tell(storage: Storage, category: MemoryCategory) {
    let Storage { address, bytes, device } = storage;
    hook::label_memory(&MemoryLabel { address, bytes, device, category });
}

thread_local! {
    /// What was allocated since the optimizer's step began, and not freed yet.
    static ALLOCATED: RefCell<Option<Vec<Storage>>> = const { RefCell::new(None) };
}

/// While an optimizer steps: what is allocated meanwhile and lives on, the optimizer keeps.
pub(crate) struct StateKept(());

impl StateKept {
    /// The step begins on the calling thread.
    pub(crate) fn begin() -> Self {
        if is_wanted() {
            let _ = ALLOCATED.try_with(|allocated| *allocated.borrow_mut() = Some(Vec::new()));
        }
        Self(())
    }
}

impl Drop for StateKept {
    fn drop(&mut self) {
        let kept = ALLOCATED.try_with(|allocated| allocated.borrow_mut().take());
        for storage in kept.ok().flatten().unwrap_or_default() {
            tell(storage, MemoryCategory::OptimizerState);
        }
    }
}

/// Memory was allocated or freed on the calling thread.
#[cfg_attr(not(records_ops), expect(dead_code, reason = "nobody calls"))]
pub(super) fn see(change: &MemoryChange) {
    let _ = ALLOCATED.try_with(|allocated| {
        let Ok(mut allocated) = allocated.try_borrow_mut() else { return };
        let Some(allocated) = allocated.as_mut() else { return };
        match u64::try_from(change.bytes) {
            Ok(bytes) => {
                allocated.push(Storage { address: change.address, bytes, device: change.device })
            }
            // Nearly always one of the last.
            Err(_) => {
                let freed = allocated.iter().rposition(|other| {
                    other.address == change.address && other.device == change.device
                });
                if let Some(freed) = freed {
                    allocated.swap_remove(freed);
                }
            }
        }
    });
}
