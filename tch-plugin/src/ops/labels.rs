//! Classification of memory.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use mlprof_core::Interest;
use mlprof_core::hook::{self, MemoryCategory, MemoryDevice, MemoryLabel};
use tch::Tensor;
use tch::nn::Variables;

use super::ffi;
use super::step_memory::{self, Step, Storage};

/// Variables of all stores that are trained.
static KNOWN: Mutex<Vec<Weak<Mutex<Variables>>>> = Mutex::new(Vec::new());

fn known() -> MutexGuard<'static, Vec<Weak<Mutex<Variables>>>> {
    KNOWN.lock().unwrap_or_else(PoisonError::into_inner)
}

fn is_wanted() -> bool {
    hook::interest().contains(Interest::MEMORY)
}

/// Registers the variables of a store, so that their memory is labelled from now on.
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

/// Labels all existing variables and gradients at the beginning of a recording.
pub(super) fn label_known() {
    let known: Vec<_> = known().iter().filter_map(Weak::upgrade).collect();
    for variables in known {
        label_all(&variables);
    }
}

/// Categories of a variable (`false`) and of its gradient (`true`).
const LABELS_OF_VARIABLES: [(bool, MemoryCategory); 2] =
    [(false, MemoryCategory::Parameter), (true, MemoryCategory::Gradient)];

fn label_all(variables: &Mutex<Variables>) {
    // A thread that waits for the beginning of this recording may hold the lock, so this must not
    // block.
    let Ok(variables) = variables.try_lock() else { return };
    label_each(variables.named_variables.values());
}

/// Labels variables and their gradients, which are created again in each step.
pub(crate) fn label_variables<'variables>(tensors: impl IntoIterator<Item = &'variables Tensor>) {
    if is_wanted() {
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
    if is_wanted() {
        label(tensor, false, MemoryCategory::Input);
    }
}

fn label(tensor: &Tensor, of_gradient: bool, category: MemoryCategory) {
    if let Some(storage) = ffi::storage(tensor, of_gradient) {
        tell(storage, category);
    }
}

fn tell(storage: Storage, category: MemoryCategory) {
    let Storage { address, bytes, device } = storage;
    hook::label_memory(&MemoryLabel { address, bytes, device, category });
}

/// RAII guard of an optimizer step that labels the optimizer's state when dropped. The state
/// consists of:
///
/// - memory that was allocated during the step and is still alive
/// - memory that the step's ops read, except variables, gradients and freed memory; it is state
///   from earlier steps, whether or not they were recorded
pub(crate) struct StepFollowed {
    is_followed: bool,
}

impl StepFollowed {
    /// Begins the step on the calling thread and labels its variables.
    pub(crate) fn begin<'variables>(
        variables: impl IntoIterator<Item = &'variables Tensor>,
    ) -> Self {
        let is_followed = is_wanted();
        if is_followed {
            let mut step = Step::default();
            for variable in variables {
                for (of_gradient, category) in LABELS_OF_VARIABLES {
                    if let Some(storage) = ffi::storage(variable, of_gradient) {
                        tell(storage, category);
                        step.trained.insert(storage.place());
                    }
                }
            }
            step_memory::begin(step);
            ffi::follow_reads(true);
        }
        Self { is_followed }
    }
}

impl Drop for StepFollowed {
    fn drop(&mut self) {
        if !self.is_followed {
            return;
        }
        ffi::follow_reads(false);
        let Step { trained, allocated, read } = step_memory::end();
        let known = |(place, bytes): ((u64, MemoryDevice), u64)| {
            (!trained.contains(&place)).then_some(Storage {
                address: place.0,
                bytes,
                device: place.1,
            })
        };
        let from_before = read.into_iter().filter_map(known);
        from_before.chain(allocated).for_each(|storage| {
            tell(storage, MemoryCategory::OptimizerState);
        });
    }
}
