//! Kinds of actions, remembered.

use mlprof_events::{Action, ActionKind};

/// The kinds of actions by [`Action::index`]: asking the interner takes a lock.
#[derive(Debug, Default)]
pub(super) struct Kinds(Vec<Option<ActionKind>>);

impl Kinds {
    /// The kind of `action`. *Cost*: a look into a list but for the first time.
    #[inline]
    pub(super) fn of(&mut self, action: Action) -> ActionKind {
        let index = action.index();
        if index >= self.0.len() {
            self.0.resize(index + 1, None);
        }
        *self.0[index].get_or_insert_with(|| action.kind())
    }
}
