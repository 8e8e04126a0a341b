//! Nesting depth of open actions, for tables that keep no record per action.

use rustc_hash::FxHashMap;

use mlprof_events::Action;

/// Number of open scopes of each action, without detached ones.
#[derive(Debug, Default)]
pub(crate) struct Nesting(FxHashMap<Action, usize>);

impl Nesting {
    /// Counts a scope that begins. Returns `true` if it is inside another one of its action.
    pub(crate) fn open(&mut self, action: Action) -> bool {
        let open = self.0.entry(action).or_default();
        *open += 1;
        *open > 1
    }

    /// Uncounts a scope that ends or is detached.
    pub(crate) fn close(&mut self, action: Action) {
        if let Some(open) = self.0.get_mut(&action) {
            *open -= 1;
            if *open == 0 {
                self.0.remove(&action);
            }
        }
    }
}
