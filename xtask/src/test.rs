//! `cargo xtask test`: every test there is.
//!
//! The core is tested with debug assertions; whatever stands on burn is tested optimised, since
//! burn unoptimised would be a second long build, and its training far too slow.

use crate::steps::{Step, run_all, target_directory};
use crate::{python, steps};

/// Runs them.
pub fn run() -> Result<(), String> {
    python::require()?;
    println!("build output in {}", steps::target_directory().display());
    run_all(&[
        Step::cargo("core and macros", "test -p profiler-core -p profiler-macros"),
        Step::cargo(
            "core and macros, all features",
            "test -p profiler-core -p profiler-macros --all-features",
        ),
        // Loom replaces the atomics everywhere, hence a build folder of its own.
        Step::cargo("core under loom", "test --release -p profiler-core --lib loom --target-dir")
            .argument(target_directory().join("loom"))
            .env("RUSTFLAGS", "--cfg loom")
            .must_run_tests(),
        Step::cargo("this tool", "test -p xtask"),
        Step::cargo("benchmarks", "test --release -p benches"),
        Step::cargo("burn plugin and example", "test --release -p burn-plugin -p burn-digits"),
        Step::cargo("end to end", "test --release -p tests"),
    ])
}
