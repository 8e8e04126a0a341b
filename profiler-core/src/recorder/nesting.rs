//! Which actions are open, for tables that have no record to note it in.

use rustc_hash::FxHashMap;

use mlprof_events::Action;

/// How many scopes of each action are open that are not detached.
#[derive(Debug, Default)]
pub(crate) struct Nesting(FxHashMap<Action, usize>);

impl Nesting {
    /// A scope begins; whether it is inside another one of its action.
    pub(crate) fn open(&mut self, action: Action) -> bool {
        let open = self.0.entry(action).or_default();
        *open += 1;
        *open > 1
    }

    /// A scope ends, or is detached.
    pub(crate) fn close(&mut self, action: Action) {
        if let Some(open) = self.0.get_mut(&action) {
            *open -= 1;
            if *open == 0 {
                self.0.remove(&action);
            }
        }
    }
}
