//! Which part of a step a path belongs to.

use profiler_events::{Action, ActionKind, Direction, Phase, names};

/// The part of a step that a path belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum StepPart {
    /// A batch is waited for.
    Data,
    Phase(Phase),
}

impl StepPart {
    /// What runs while a batch is fetched belongs to that; else the innermost that tells a phase decides.
    pub(super) fn of(action: Action, direction: Direction, around: Option<Self>) -> Self {
        let waits =
            action.kind() == ActionKind::Action && names::is_waiting_for_data(action.name());
        if waits || around == Some(Self::Data) {
            return Self::Data;
        }
        let told = Phase::told_by(action, direction).map(Self::Phase);
        told.or(around).unwrap_or(Self::Phase(Phase::Other))
    }
}
