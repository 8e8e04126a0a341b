//! mlprof in a program with many names.

use std::cell::Cell;
use std::sync::Arc;
use std::time::Duration;

use mlprof_core::{Action, AdvancedProfiler, Profiler, ProfilerExt, SimpleProfiler};

use super::ours::behind_dyn;
use crate::harness::{Subject, time, work};

/// Number of names.
const NAMES: usize = 10_000;

/// Uses ten thousand names in turn below an open action. For the Advanced profiler, all are callees
/// of one call site.
pub struct ManyNames {
    name: &'static str,
    profiler: Arc<dyn Profiler>,
    around: Action,
    names: Vec<Action>,
}

impl ManyNames {
    /// Creates the subject with the Simple profiler.
    pub fn simple() -> Self {
        Self::of("simple_10000", SimpleProfiler::new())
    }

    /// Creates the subject with the Advanced profiler.
    pub fn advanced() -> Self {
        Self::of("advanced_10000", AdvancedProfiler::new())
    }

    fn of(name: &'static str, profiler: impl Profiler + 'static) -> Self {
        let (profiler, around) = (behind_dyn(profiler), Action::new("training_step"));
        Self { name, profiler, around, names: names() }
    }
}

fn names() -> Vec<Action> {
    (0..NAMES).map(|number| Action::new(&format!("layer_{number}"))).collect()
}

impl Subject for ManyNames {
    fn name(&self) -> &'static str {
        self.name
    }

    /// All names are used once during warm-up, which makes the result comparable with a single name
    /// in repeated use.
    fn scopes_until_warm(&self) -> usize {
        NAMES
    }

    fn slice(&self, scopes: usize) -> Duration {
        thread_local! {
            static NEXT: Cell<usize> = const { Cell::new(0) };
        }
        let first = NEXT.get();
        NEXT.set((first + scopes) % NAMES);
        let names: Vec<Action> =
            self.names.iter().cycle().skip(first).take(scopes).copied().collect();
        let _around = self.profiler.profile(self.around);
        time(scopes, |call| {
            let _scope = self.profiler.profile(names[call]);
            work(call);
        })
    }
}

/// Uses one name inside ten thousand open scopes.
pub struct Deep {
    name: &'static str,
    profiler: Arc<dyn Profiler>,
    around: Vec<Action>,
    leaf: Action,
}

impl Deep {
    /// Creates the subject with the Simple profiler.
    pub fn simple() -> Self {
        Self::of("simple_deep", SimpleProfiler::new())
    }

    /// Creates the subject with the Advanced profiler.
    pub fn advanced() -> Self {
        Self::of("advanced_deep", AdvancedProfiler::new())
    }

    fn of(name: &'static str, profiler: impl Profiler + 'static) -> Self {
        let (profiler, leaf) = (behind_dyn(profiler), Action::new("training_step"));
        Self { name, profiler, around: names(), leaf }
    }
}

impl Subject for Deep {
    fn name(&self) -> &'static str {
        self.name
    }

    fn slice(&self, scopes: usize) -> Duration {
        self.around.iter().for_each(|action| self.profiler.start(*action));
        let duration = time(scopes, |call| {
            let _scope = self.profiler.profile(self.leaf);
            work(call);
        });
        self.around.iter().rev().for_each(|action| {
            let _ = self.profiler.stop(*action);
        });
        duration
    }
}
