//! Memory categories of tensors.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mlprof_core::Interest;
use mlprof_core::hook::{self, MemoryCategory, MemoryDevice, MemoryLabel};
use tch::Tensor;
use tch::nn::Variables;

use super::ffi;
use super::step_memory::{self, Step, Storage};

/// Variables of all stores that are trained.
static STORES: Mutex<Vec<Weak<Mutex<Variables>>>> = Mutex::new(Vec::new());

fn stores() -> MutexGuard<'static, Vec<Weak<Mutex<Variables>>>> {
    STORES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wants_memory() -> bool {
    hook::interest().contains(Interest::MEMORY)
}

/// Registers the variables of a store, so that every recording labels them.
pub(crate) fn follow(variables: &Arc<Mutex<Variables>>) {
    let mut stores = stores();
    stores.retain(|other| other.strong_count() > 0);
    if !stores.iter().any(|other| other.as_ptr() == Arc::as_ptr(variables)) {
        stores.push(Arc::downgrade(variables));
    }
    drop(stores);
    if wants_memory() {
        label_all(variables);
    }
}

/// Labels all variables and gradients at the beginning of a recording.
pub(super) fn label_registered() {
    let stores: Vec<_> = stores().iter().filter_map(Weak::upgrade).collect();
    for variables in stores {
        label_all(&variables);
    }
}

/// Categories of a variable (`false`) and of its gradient (`true`).
const LABELS_OF_VARIABLES: [(bool, MemoryCategory); 2] =
    [(false, MemoryCategory::Parameter), (true, MemoryCategory::Gradient)];

fn label_all(variables: &Mutex<Variables>) {
    // A thread that waits for this recording to begin may hold the lock.
    let Ok(variables) = variables.try_lock() else { return };
    label_each(variables.named_variables.values());
}

/// Labels variables and their gradients, which torch allocates anew in each step.
pub(crate) fn label_variables<'variables>(tensors: impl IntoIterator<Item = &'variables Tensor>) {
    if wants_memory() {
        label_each(tensors);
    }
}

fn label_each<'variables>(tensors: impl IntoIterator<Item = &'variables Tensor>) {
    for tensor in tensors {
        for (of_gradient, category) in LABELS_OF_VARIABLES {
            label(tensor, of_gradient, category);
        }
    }
}

/// Labels a tensor of a batch.
pub(crate) fn label_input(tensor: &Tensor) {
    if wants_memory() {
        label(tensor, false, MemoryCategory::Input);
    }
}

fn label(tensor: &Tensor, of_gradient: bool, category: MemoryCategory) {
    if let Some(storage) = ffi::storage(tensor, of_gradient) {
        report_label(storage, category);
    }
}

fn report_label(storage: Storage, category: MemoryCategory) {
    let Storage { address, bytes, device } = storage;
    hook::label_memory(&MemoryLabel { address, bytes, device, category });
}

/// Guard around a step of an optimizer, which finds the memory of the optimizer's state:
/// allocations of the step that outlive it, and memory that its ops read and that is neither a
/// variable nor a gradient. The latter was allocated in earlier steps, recorded or not.
pub(crate) struct TrackedStep {
    is_tracked: bool,
}

impl TrackedStep {
    /// Begins a step along these variables on the calling thread, and labels them.
    pub(crate) fn begin<'variables>(
        variables: impl IntoIterator<Item = &'variables Tensor>,
    ) -> Self {
        let is_tracked = wants_memory();
        if is_tracked {
            let mut step = Step::default();
            for variable in variables {
                for (of_gradient, category) in LABELS_OF_VARIABLES {
                    if let Some(storage) = ffi::storage(variable, of_gradient) {
                        report_label(storage, category);
                        step.trained.insert(storage.place());
                    }
                }
            }
            step_memory::begin(step);
            ffi::follow_reads(true);
        }
        Self { is_tracked }
    }
}

impl Drop for TrackedStep {
    fn drop(&mut self) {
        if !self.is_tracked {
            return;
        }
        ffi::follow_reads(false);
        let Step { trained, allocated, read } = step_memory::end();
        let untrained = |(place, bytes): ((u64, MemoryDevice), u64)| {
            (!trained.contains(&place)).then_some(Storage {
                address: place.0,
                bytes,
                device: place.1,
            })
        };
        let from_before = read.into_iter().filter_map(untrained);
        from_before.chain(allocated).for_each(|storage| {
            report_label(storage, MemoryCategory::OptimizerState);
        });
    }
}
