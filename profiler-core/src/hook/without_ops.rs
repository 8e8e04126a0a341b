//! Frameworks that give no hook for their ops, and whose ops become known all the same.

use std::sync::{Arc, PoisonError};

use super::{Instrumentation, register};
use crate::report::internals::Missing;
use mlprof_events::Interest;
use mlprof_events::forking::{Mutex, MutexGuard};

/// Says in the report of a profiler that wants ops why there are none.
struct WithoutOps(&'static str);

impl Instrumentation for WithoutOps {
    fn interest_changed(&self, _interest: Interest) {}

    fn note(&self, _interest: Interest) -> Option<String> {
        (!has_ops_of(self.0)).then(|| Missing::OpsOf(self.0).to_string())
    }
}

/// The beginning of a hook's note that names a device whose ops it does not see, and says what to
/// do: a report needs no other reason then.
#[doc(hidden)]
pub const WITHOUT_OPS_OF: &str = "no ops of ";

struct Frameworks {
    without_hook: Vec<&'static str>,
    with_ops: Vec<String>,
}

fn frameworks() -> MutexGuard<'static, Frameworks> {
    static FRAMEWORKS: Mutex<Frameworks> =
        Mutex::new(Frameworks { without_hook: Vec::new(), with_ops: Vec::new() });
    FRAMEWORKS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The frameworks that give no hook, but for those whose ops become known otherwise.
pub(crate) fn frameworks_without_ops() -> Vec<&'static str> {
    let named = frameworks().without_hook.clone();
    named.into_iter().filter(|framework| !has_ops_of(framework)).collect()
}

/// Has reports say that `framework` gives no hook for its tensor ops, so that nobody takes a table
/// without ops for a program without ops. For plugins; the same framework may be named many times.
pub fn announce_without_ops(framework: &'static str) {
    {
        let mut frameworks = frameworks();
        if frameworks.without_hook.contains(&framework) {
            return;
        }
        frameworks.without_hook.push(framework);
    }
    register(Arc::new(WithoutOps(framework))).forever();
}

/// The ops of `framework` become known though it gives no hook: as those that `mlprof run` has put hooks
/// into.
pub fn declare_ops_of(framework: &str) {
    let mut frameworks = frameworks();
    if !frameworks.with_ops.iter().any(|known| known == framework) {
        frameworks.with_ops.push(framework.to_owned());
    }
}

/// Whether somebody has [said so](declare_ops_of) of this framework.
pub fn has_ops_of(framework: &str) -> bool {
    frameworks().with_ops.iter().any(|known| known == framework)
}

/// For what is recorded on demand: why there are no ops in it, and what to do, without the words
/// that there are none.
#[doc(hidden)]
pub fn reason_without_ops() -> String {
    let without = frameworks_without_ops();
    if !without.is_empty() {
        let reasons = without.into_iter().map(|framework| Missing::OpsOf(framework).to_string());
        return reasons.collect::<Vec<_>>().join("; ");
    }
    let sources = crate::instrumentation::sources_of_ops();
    let missing = match sources.is_empty() {
        true => Missing::SourceOfOps { frameworks: mlprof_events::frameworks() },
        false => Missing::Ops { sources },
    };
    let text = missing.to_string();
    let reason = ["there are no ops, because ", "there are no ops: "]
        .into_iter()
        .find_map(|prefix| text.strip_prefix(prefix));
    reason.unwrap_or(&text).to_owned()
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
        let session = Session::begin(profiler.clone(), Stage::Predict, &RunContext::default())
            .expect("a profiler");
        let summary = profiler.summary();
        drop(session);
        let said = summary.matches("a framework of this test gives no hook").count();
        assert_eq!(said, 1, "{summary}");
        let reason = reason_without_ops();
        let expected = "a framework of this test gives no hook for its tensor ops: run the program by `mlprof run --ops";
        assert!(reason.contains(expected), "{reason}");
    }
}
