//! A module that imports everything, from the crate's root and from its prelude.

use std::sync::Arc;

use profiler_core::prelude::*;
use profiler_core::*;

#[profiler_core::prelude::profile]
fn function() {
    drop(profile_scope!("scope"));
    drop(profiler_core::profile!("by its path"));
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
