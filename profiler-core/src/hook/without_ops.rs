//! For frameworks that give no hook for their ops.

use std::sync::{Arc, PoisonError};

use super::{Source, register};
use crate::Interest;
use crate::forking::{Mutex, MutexGuard};
use crate::missing::Missing;

/// Says in the report of a profiler that wants ops why there are none.
struct WithoutOps(&'static str);

impl Source for WithoutOps {
    fn interest_changed(&self, _interest: Interest) {}

    fn note(&self, _interest: Interest) -> Option<String> {
        let framework = self.0;
        let has_ops = crate::spliced::has_ops_of(framework);
        (!has_ops).then(|| Missing::OpsOf(framework).to_string())
    }
}

fn named() -> MutexGuard<'static, Vec<&'static str>> {
    static NAMED: Mutex<Vec<&'static str>> = Mutex::new(Vec::new());
    NAMED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The frameworks of which that was said, but for those that `mlprof run` has put hooks into.
pub(crate) fn frameworks_without_ops() -> Vec<&'static str> {
    let named = named().clone();
    named.into_iter().filter(|framework| !crate::spliced::has_ops_of(framework)).collect()
}

/// Has reports say that `framework` gives no hook for its tensor ops, so that nobody takes a table
/// without ops for a program without ops. For plugins; the same framework may be named many times.
pub fn announce_without_ops(framework: &'static str) {
    {
        let mut named = named();
        if named.contains(&framework) {
            return;
        }
        named.push(framework);
    }
    register(Arc::new(WithoutOps(framework))).forever();
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Profiler, RunContext, Session, Stage, TensorProfiler};

    #[test]
    fn the_report_says_why_there_are_no_ops() {
        announce_without_ops("a framework of this test");
        announce_without_ops("a framework of this test");
        let profiler = Arc::new(TensorProfiler::new().without_schedule());
        let session = Session::begin(profiler.clone(), Stage::Predict, &RunContext::default());
        let summary = profiler.summary();
        drop(session);
        let said = summary.matches("a framework of this test gives no hook").count();
        assert_eq!(said, 1, "{summary}");
    }
}
