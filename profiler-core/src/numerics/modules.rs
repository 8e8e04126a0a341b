//! Mapping from ops to their modules.

use std::cell::RefCell;
use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use crate::{Action, ActionKind};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{Direction, OpStart};

/// Open module or op of a thread.
#[derive(Clone, Copy)]
struct Open {
    action: Action,
    /// Innermost enclosing module, or the action itself if it is a module.
    module: Option<Action>,
}

thread_local! {
    /// Open modules and ops of the thread, the innermost last.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// Maximum number of forward ops to remember per step.
const MOST: usize = 100_000;

/// Modules of forward ops. The backward ops of the same step inherit them.
#[derive(Default)]
pub(super) struct Modules {
    /// Modules by the key with which the framework links forward and backward ops: the forward op's
    /// thread and sequence number.
    of_forward: Mutex<FxHashMap<(u32, u32), Action>>,
}

impl Modules {
    fn of_forward(&self) -> MutexGuard<'_, FxHashMap<(u32, u32), Action>> {
        self.of_forward.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn start(action: Action) {
        if action.kind() == ActionKind::Module {
            with_open(|open| open.push(Open { action, module: Some(action) }));
        }
    }

    pub(super) fn start_op(&self, op: &OpStart<'_>) {
        let around = innermost();
        let key = (op.forward_thread, op.sequence);
        let module = match (op.direction, around) {
            _ if op.sequence == 0 => around,
            (Direction::Forward, Some(module)) => {
                let mut known = self.of_forward();
                if known.len() < MOST {
                    known.insert(key, module);
                }
                around
            }
            (Direction::Backward, None) => self.of_forward().get(&key).copied(),
            _ => around,
        };
        with_open(|open| open.push(Open { action: op.action, module }));
    }

    /// Closes `action` if it is the innermost open one. Unknown actions are ignored.
    pub(super) fn stop(action: Action) {
        with_open(|open| {
            if open.last().is_some_and(|last| last.action == action) {
                open.pop();
            }
        });
    }

    /// Forgets the forward ops at the end of a step, after the gradients have been computed.
    pub(super) fn forget(&self) {
        self.of_forward().clear();
    }
}

/// Returns the module in which the calling thread is, or whose gradient it computes.
pub(super) fn innermost() -> Option<Action> {
    let last = OPEN.try_with(|open| open.try_borrow().ok()?.last().copied());
    last.ok().flatten().and_then(|open| open.module)
}

/// Clears the open modules and ops of the calling thread. It is called when reporting of actions
/// starts or stops. Otherwise entries without a matching end would stay open.
pub(super) fn leave_all() {
    with_open(Vec::clear);
}

/// Calls `work` with the thread's stack. It does nothing while the thread is torn down, or if a
/// signal handler interrupts this function.
fn with_open(work: impl FnOnce(&mut Vec<Open>)) {
    let _ = OPEN.try_with(|open| open.try_borrow_mut().map(|mut open| work(&mut open)));
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_op_is_in_the_module_around_it_and_a_gradient_in_that_of_its_forward_op() {
        let modules = Modules::default();
        let module = Action::module("Linear", "hidden");
        let (op, node, inner) = (Action::op("mm"), Action::op("MmBackward0"), Action::op("t"));
        let forward = OpStart { sequence: 7, forward_thread: 2, ..OpStart::new(op) };
        Modules::start(Action::new("no module"));
        Modules::start(module);
        modules.start_op(&forward);
        assert_eq!(innermost(), Some(module));
        Modules::stop(op);
        Modules::stop(module);
        assert_eq!(innermost(), None);
        let backward = |sequence| OpStart {
            sequence,
            direction: Direction::Backward,
            ..OpStart { action: node, ..forward }
        };
        for (sequence, expected) in [(7, Some(module)), (8, None)] {
            modules.start_op(&backward(sequence));
            modules.start_op(&OpStart { direction: Direction::Backward, ..OpStart::new(inner) });
            assert_eq!(innermost(), expected, "{sequence}");
            Modules::stop(inner);
            Modules::stop(node);
        }
        modules.forget();
        modules.start_op(&backward(7));
        assert_eq!(innermost(), None, "that was another step");
        Modules::stop(node);
    }
}
