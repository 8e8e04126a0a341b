//! Checks a module with glob imports of both the crate root and the prelude.

use std::sync::Arc;

use mlprof_core::prelude::*;
use mlprof_core::*;

#[profiled]
fn function() {
    drop(profile!("scope"));
    drop(mlprof_core::profile!("by its path"));
}

#[test]
fn nothing_that_both_bring_is_ambiguous() {
    let profiler = Arc::new(AdvancedProfiler::new());
    let active = activate(profiler.clone());
    function();
    drop(active);
    assert_eq!(Action::new("scope").kind(), ActionKind::Action, "of the root alone");
    let report = profiler.summary();
    for name in ["(function)", "Profile stats for: scope", "Profile stats for: by its path"] {
        assert!(report.contains(name), "{name}: {report}");
    }
}
