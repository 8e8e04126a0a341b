//! What memory is for.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
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

impl Storage {
    fn place(&self) -> (u64, MemoryDevice) {
        (self.address, self.device)
    }
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

/// Of a variable itself (not its gradient), and of its gradient.
const LABELS_OF_VARIABLES: [(bool, MemoryCategory); 2] =
    [(false, MemoryCategory::Parameter), (true, MemoryCategory::Gradient)];

fn label_all(variables: &Mutex<Variables>) {
    // Somebody may hold them who is waiting for this recording to begin.
    let Ok(variables) = variables.try_lock() else { return };
    label_each(variables.named_variables.values());
}

/// Labels variables and their gradients, which are made anew in each step.
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
    /// The optimizer's step that the thread is in.
    static STEP: RefCell<Option<Step>> = const { RefCell::new(None) };
}

/// What memory a step of an optimizer has to do with.
#[derive(Default)]
struct Step {
    /// Variables and gradients.
    trained: HashSet<(u64, MemoryDevice)>,
    /// Allocated since the step began, and not freed yet.
    allocated: Vec<Storage>,
    /// Read by an op and not freed yet, with its bytes.
    read: HashMap<(u64, MemoryDevice), u64>,
}

/// While an optimizer steps. What is allocated meanwhile and lives on, the optimizer keeps; and what
/// its ops read that is neither a variable, nor a gradient, nor gone by the end, it has kept from
/// earlier steps, be they recorded or not.
pub(crate) struct StepFollowed {
    is_followed: bool,
}

impl StepFollowed {
    /// The step along these variables begins on the calling thread; they are labelled, too.
    pub(crate) fn begin<'variables>(
        variables: impl IntoIterator<Item = &'variables Tensor>,
    ) -> Self {
        let is_followed = is_wanted();
        if is_followed {
            let mut step = Step::default();
            for variable in variables {
                for (of_gradient, category) in LABELS_OF_VARIABLES {
                    if let Some(storage) = foreign::storage(variable, of_gradient) {
                        tell(storage, category);
                        step.trained.insert(storage.place());
                    }
                }
            }
            let _ = STEP.try_with(|current| *current.borrow_mut() = Some(step));
            foreign::follow_reads(true);
        }
        Self { is_followed }
    }
}

impl Drop for StepFollowed {
    fn drop(&mut self) {
        if !self.is_followed {
            return;
        }
        foreign::follow_reads(false);
        let step = STEP.try_with(|current| current.borrow_mut().take());
        let Step { trained, allocated, read } = step.ok().flatten().unwrap_or_default();
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
