//! Frameworks without hooks for their ops, and frameworks whose ops are recorded by other means.

use std::sync::{Arc, PoisonError};

use super::{Instrumentation, register};
use crate::report::internals::Missing;
use mlprof_events::Interest;
use mlprof_events::forking::{Mutex, MutexGuard};

/// Adds a note to the report of a profiler that wants ops, with the reason why they are missing.
struct WithoutOps(&'static str);

impl Instrumentation for WithoutOps {
    fn interest_changed(&self, _interest: Interest) {}

    fn note(&self, _interest: Interest) -> Option<String> {
        (!has_ops_of(self.0)).then(|| Missing::OpsOf(self.0).to_string())
    }
}

/// Prefix of a hook's note about a device whose ops it cannot record, followed by advice. A report
/// with such a note needs no other reason.
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

/// Returns the frameworks without hooks whose ops are not recorded by other means either.
pub(crate) fn frameworks_without_ops() -> Vec<&'static str> {
    let named = frameworks().without_hook.clone();
    named.into_iter().filter(|framework| !has_ops_of(framework)).collect()
}

/// Declares that `framework` has no hook for its tensor ops. Reports then explain that the op table
/// is empty for this reason. Plugins call it, and may do so several times for one framework.
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

/// Declares that the ops of `framework` are recorded although it has no hook, for example by hooks
/// that `mlprof run` has inserted.
pub fn declare_ops_of(framework: &str) {
    let mut frameworks = frameworks();
    if !frameworks.with_ops.iter().any(|known| known == framework) {
        frameworks.with_ops.push(framework.to_owned());
    }
}

/// Returns `true` if the ops of this framework have been [declared](declare_ops_of).
pub fn has_ops_of(framework: &str) -> bool {
    frameworks().with_ops.iter().any(|known| known == framework)
}

/// Returns the reason why an on-demand recording has no ops, and how to fix that. The text omits
/// the introduction "there are no ops".
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
        let said = summary.matches("a framework of this test provides no hook").count();
        assert_eq!(said, 1, "{summary}");
        let reason = reason_without_ops();
        let expected = "a framework of this test provides no hook for its tensor ops: run the program under `mlprof run --ops";
        assert!(reason.contains(expected), "{reason}");
    }
}
