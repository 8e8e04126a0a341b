//! How the program was built that this crate is part of. **Not for users**: it may change in any
//! version.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::report::BuildSettings;

/// Whether this copy of the crate was built apart from the program.
static IS_APART: AtomicBool = AtomicBool::new(false);

/// This copy of the crate is built with settings of its own: of those of the program it knows nothing.
pub fn are_not_the_programs() {
    IS_APART.store(true, Ordering::Relaxed);
}

/// Those of this crate, which the program's other dependencies have, too, unless it says otherwise for
/// one of them.
pub(crate) fn of_program() -> Option<BuildSettings> {
    let is_apart = IS_APART.load(Ordering::Relaxed);
    (!is_apart).then(|| BuildSettings {
        debug_assertions: cfg!(debug_assertions),
        opt_level: env!("MLPROF_OPT_LEVEL").to_owned(),
        target_features: target_features(),
    })
}

fn target_features() -> Vec<String> {
    let features = [
        (cfg!(target_feature = "sse4.2"), "sse4.2"),
        (cfg!(target_feature = "avx"), "avx"),
        (cfg!(target_feature = "avx2"), "avx2"),
        (cfg!(target_feature = "fma"), "fma"),
        (cfg!(target_feature = "avx512f"), "avx512f"),
        (cfg!(target_feature = "neon"), "neon"),
        (cfg!(target_feature = "sve"), "sve"),
    ];
    features.into_iter().filter(|(is_on, _)| *is_on).map(|(_, name)| name.to_owned()).collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{Profiler, ProfilerExt, SimpleProfiler};

    #[test]
    fn reports_say_how_the_program_was_built() {
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("step"));
        let build = profiler.report().and_then(|report| report.header().build.clone());
        let build = build.expect("it is built with the program");
        assert_eq!(build.debug_assertions, cfg!(debug_assertions));
        assert!(["0", "1", "2", "3", "s", "z"].contains(&&*build.opt_level), "{build:?}");
        assert_eq!(Some(build), of_program());
    }
}
