//! Phases of a training step.

use serde::{Deserialize, Serialize};

use crate::Direction;
use crate::names::is_optimizer_update;
use crate::{Action, ActionKind};

/// The phase of a training step that an op belongs to.
///
/// The innermost action with a known phase decides, beginning with the op itself:
///
/// | action | phase |
/// |---|---|
/// | an op that its framework marks as [backward](Direction::Backward) | backward |
/// | a layer of a model ([`ActionKind::Module`]) | forward |
/// | `…backward` | backward |
/// | `…training_step`, `…validation_step`, `…test_step`, `…predict_step`, `…forward` | forward |
/// | `…optimizer_step`, `…optimizer step`, `Optimizer.step`, `Optimizer.step#…` | optimizer |
///
/// The last three rows are names of actions, functions and spans, where `…` stands for any text.
/// The phase is [`Other`](Self::Other) if no enclosing action has a known phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Computation from the batch to the loss or the prediction.
    Forward,
    /// Computation from the loss to the gradients.
    Backward,
    /// Computation from the gradients to the new parameters.
    Optimizer,
    /// Everything else: fetching and moving batches, callbacks, logging.
    Other,
}

const FORWARD: [&str; 5] =
    ["training_step", "validation_step", "test_step", "predict_step", "forward"];
const OPTIMIZER: [&str; 2] = ["optimizer_step", "optimizer step"];

impl Phase {
    /// Returns the name of the phase in tables and JSON.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Forward => "forward",
            Self::Backward => "backward",
            Self::Optimizer => "optimizer",
            Self::Other => "other",
        }
    }

    /// Returns the phase that this action determines, regardless of the actions around it.
    #[doc(hidden)]
    pub fn of_action(action: Action, direction: Direction) -> Option<Self> {
        if direction == Direction::Backward {
            return Some(Self::Backward);
        }
        match action.kind() {
            ActionKind::Module => Some(Self::Forward),
            ActionKind::Action | ActionKind::Function | ActionKind::Span => {
                Self::of_name(action.name())
            }
            _ => None,
        }
    }

    fn of_name(name: &str) -> Option<Self> {
        let ends_with = |ends: &[&str]| ends.iter().any(|end| name.ends_with(end));
        if ends_with(&["backward"]) {
            Some(Self::Backward)
        } else if ends_with(&FORWARD) {
            Some(Self::Forward)
        } else if ends_with(&OPTIMIZER) || is_optimizer_update(name) {
            Some(Self::Optimizer)
        } else {
            None
        }
    }
}

impl std::fmt::Display for Phase {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_trainers_tell_the_phase() {
        let told = |name: &str| Phase::of_action(Action::new(name), Direction::Forward);
        assert_eq!(told("[Strategy]SingleDevice.training_step"), Some(Phase::Forward));
        assert_eq!(told("[Strategy]SingleDevice.backward"), Some(Phase::Backward));
        assert_eq!(told("[LightningModule]Net.optimizer_step"), Some(Phase::Optimizer));
        assert_eq!(told("Optimizer.step"), Some(Phase::Optimizer));
        assert_eq!(told("Optimizer.step#AdamW.step"), Some(Phase::Optimizer));
        assert_eq!(told("run_training_batch"), None);
        let op = Action::op("aten::_log_softmax_backward");
        assert_eq!(Phase::of_action(op, Direction::Forward), None, "an op's name says nothing");
        assert_eq!(Phase::of_action(op, Direction::Backward), Some(Phase::Backward));
    }
}
