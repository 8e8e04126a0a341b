//! Cache of the kinds of actions.

use mlprof_events::{Action, ActionKind};

/// Kinds of actions by [`Action::index`]. The cache avoids the lock of the interner.
#[derive(Debug, Default)]
pub(super) struct Kinds(Vec<Option<ActionKind>>);

impl Kinds {
    /// Returns the kind of `action`. *Cost*: one array access, except at the first call for an
    /// action.
    #[inline]
    pub(super) fn of(&mut self, action: Action) -> ActionKind {
        let index = action.index();
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        *self.0[index].get_or_insert_with(|| action.kind())
    }
}
