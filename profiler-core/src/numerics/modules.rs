//! Which module an op belongs to.

use std::cell::RefCell;
use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use crate::{Action, ActionKind};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{Direction, OpStart};

/// Something that a thread has open.
#[derive(Clone, Copy)]
struct Open {
    action: Action,
    /// The innermost module around it, or it itself.
    module: Option<Action>,
}

thread_local! {
    /// The modules and ops that the thread has open, the innermost last.
    static OPEN: RefCell<Vec<Open>> = const { RefCell::new(Vec::new()) };
}

/// So many forward ops of a step are remembered.
const MOST: usize = 100_000;

/// The modules of forward ops, by which those are known of their gradients.
#[derive(Default)]
pub(super) struct Modules {
    /// By what the framework ties the two with: the forward op's thread and a number.
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

    /// What was not started is not known here.
    pub(super) fn stop(action: Action) {
        with_open(|open| {
            if open.last().is_some_and(|last| last.action == action) {
                open.pop();
            }
        });
    }

    /// The step is over: its gradients have been computed.
    pub(super) fn forget(&self) {
        self.of_forward().clear();
    }
}

/// The module that the calling thread is in, or whose gradient it computes.
pub(super) fn innermost() -> Option<Action> {
    let last = OPEN.try_with(|open| open.try_borrow().ok()?.last().copied());
    last.ok().flatten().and_then(|open| open.module)
}

/// From here on the calling thread is told of what it opens, or is not any more: what it has open now would stay so.
pub(super) fn leave_all() {
    with_open(Vec::clear);
}

/// Not while a thread is torn down, nor in a signal handler that interrupts this.
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
