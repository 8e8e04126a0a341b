//! Build settings of the program that contains this crate. **Not public API**: it may change in any
//! version.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::report::{BuildSettings, BuildSettingsParts};

/// Set when this copy of the crate was built separately from the program.
static IS_APART: AtomicBool = AtomicBool::new(false);

/// Marks this copy of the crate as built separately from the program, so its build settings do not
/// describe the program.
pub fn are_not_the_programs() {
    IS_APART.store(true, Ordering::Relaxed);
}

/// Returns `true` if this copy of the crate was built separately, as in the library of `mlprof
/// run`.
pub fn is_apart() -> bool {
    IS_APART.load(Ordering::Relaxed)
}

/// Returns the build settings of this crate, or `None` if it was built separately. The program's
/// other dependencies have the same settings unless the program overrides them.
pub(crate) fn of_program() -> Option<BuildSettings> {
    (!is_apart()).then(|| {
        BuildSettingsParts {
            debug_assertions: cfg!(debug_assertions),
            opt_level: env!("MLPROF_OPT_LEVEL").to_owned(),
            target_features: target_features(),
            processor_features: processor_features(),
        }
        .build()
    })
}

fn target_features() -> Vec<String> {
    names_of([
        (cfg!(target_feature = "sse4.2"), "sse4.2"),
        (cfg!(target_feature = "avx"), "avx"),
        (cfg!(target_feature = "avx2"), "avx2"),
        (cfg!(target_feature = "fma"), "fma"),
        (cfg!(target_feature = "avx512f"), "avx512f"),
        (cfg!(target_feature = "neon"), "neon"),
        (cfg!(target_feature = "sve"), "sve"),
    ])
}

/// Returns the features of the current processor.
#[cfg(target_arch = "x86_64")]
fn processor_features() -> Vec<String> {
    use std::is_x86_feature_detected as has;
    names_of([
        (has!("sse4.2"), "sse4.2"),
        (has!("avx"), "avx"),
        (has!("avx2"), "avx2"),
        (has!("fma"), "fma"),
        (has!("avx512f"), "avx512f"),
        (has!("avx2") && does_avx2_in_halves(), BuildSettings::AVX2_IN_HALVES),
    ])
}

/// Returns `true` on AMD's first Zen (family 17h, models up to 2Fh). It splits each 32-byte AVX2
/// operation into two 16-byte ones, so AVX2 is not faster there.
#[cfg(target_arch = "x86_64")]
fn does_avx2_in_halves() -> bool {
    use std::arch::x86_64::__cpuid as cpuid;
    let maker = cpuid(0);
    let is_amd =
        [maker.ebx, maker.edx, maker.ecx] == [*b"Auth", *b"enti", *b"cAMD"].map(u32::from_le_bytes);
    let version = cpuid(1).eax;
    let family = (version >> 8 & 0xf) + (version >> 20 & 0xff);
    let model = (version >> 4 & 0xf) | (version >> 12 & 0xf0);
    is_amd && family == 0x17 && model < 0x30
}

/// Returns the features of the current processor.
#[cfg(target_arch = "aarch64")]
fn processor_features() -> Vec<String> {
    use std::arch::is_aarch64_feature_detected as has;
    names_of([(has!("neon"), "neon"), (has!("sve"), "sve")])
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn processor_features() -> Vec<String> {
    Vec::new()
}

fn names_of<const COUNT: usize>(features: [(bool, &str); COUNT]) -> Vec<String> {
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
        // The processor must have every target feature, because otherwise this test program would
        // not run.
        let is_known = |feature| build.processor_features.contains(feature);
        assert!(build.target_features.iter().all(is_known), "{build:?}");
        assert_eq!(
            build.processor_features.is_empty(),
            cfg!(not(any(target_arch = "x86_64", target_arch = "aarch64")))
        );
        assert_eq!(Some(build), of_program());
    }

    #[cfg(all(target_arch = "x86_64", target_os = "linux"))]
    #[test]
    fn a_processor_with_half_as_wide_instructions_is_known_as_the_system_knows_it() {
        let known = std::fs::read_to_string("/proc/cpuinfo").expect("there is a processor");
        let said = |what: &str| {
            let mut lines = known.lines().filter_map(|line| line.split_once(':'));
            let said = lines.find(|(name, _)| name.trim() == what);
            said.expect("it is said").1.trim().to_owned()
        };
        let number = |what: &str| said(what).parse::<u32>().expect("a number");
        let is_first_zen = said("vendor_id") == "AuthenticAMD"
            && number("cpu family") == 23
            && number("model") < 48;
        assert_eq!(does_avx2_in_halves(), is_first_zen);
    }
}
