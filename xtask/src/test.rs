//! `cargo xtask test`: every test there is.
//!
//! The core is tested with debug assertions; whatever stands on burn is tested optimised, since
//! burn unoptimised would be a second long build, and its training far too slow; but what a GPU computes
//! is as fast either way.

use std::path::Path;

use crate::libtorch::{Libtorch, Variables, version};
use crate::steps::{Step, run_all, target_directory};
use crate::system::{CPP_COMPILER, PYTHON, SOFTWARE_GPU};
use crate::{miri, newest, steps};

/// Names the libcupti that came with libtorch to the tests that see what a real one does without a
/// driver.
fn cupti_of(libtorch: &Variables) -> Variables {
    let folder = libtorch.iter().find(|(name, _)| *name == "LIBTORCH");
    let path = folder.and_then(|(_, folder)| {
        let path = Path::new(folder.as_deref()?).join("lib/libcupti.so.12");
        path.exists().then(|| path.into_os_string())
    });
    path.map(|path| vec![("MLPROF_TEST_CUPTI", Some(path))]).unwrap_or_default()
}

/// Runs them.
pub fn run() -> Result<(), String> {
    for requirement in [PYTHON, CPP_COMPILER, SOFTWARE_GPU] {
        requirement.require()?;
    }
    println!("build output in {}", steps::target_directory().display());
    let libtorch = Libtorch::of_workspace()?.variables();
    let newest_libtorch = Libtorch::named_or_made(version::newest())?.variables();
    let mut steps = vec![
        Step::cargo(
            "core, macros and the training loop",
            "test -p profiler-core -p profiler-events -p profiler-macros -p profiler-train",
        ),
        Step::cargo(
            "core and devices, all features",
            "test -p profiler-core -p profiler-cuda -p profiler-macros --all-features",
        )
        .variables(&cupti_of(&libtorch)),
        // Loom replaces the atomics everywhere, hence a build folder of its own.
        Step::cargo(
            "core under loom",
            "test --release -p profiler-events -p profiler-core -p profiler-cuda --lib loom --target-dir",
        )
        .argument(target_directory().join("loom"))
        .env("RUSTFLAGS", "--cfg loom")
        .must_run_tests(),
        Step::cargo("this tool", "test -p xtask"),
        // Optimised, as the end-to-end tests build it: it reads whole frameworks.
        Step::cargo("the command mlprof", "test --release -p profiler-cli"),
        Step::cargo("benchmarks", "test --release -p benches"),
        Step::cargo("candle plugin", "test --release -p candle-plugin --all-features"),
        Step::cargo(
            "candle examples",
            "test --release -p command-line -p digits -p candle-digits -p candle-workers",
        ),
        // Alone, as the end-to-end tests build it: candle-transformers takes minutes.
        Step::cargo("candle text example", "test --release -p candle-text --features spans"),
        Step::cargo(
            "burn plugin and example",
            "test --release -p burn-plugin -p burn-digits --features burn-plugin/rl",
        ),
        // Unoptimised, in a build folder of its own: the work is done by the driver. One test after
        // the other, since cubecl tells one observer of the process what is launched.
        Step::cargo(
            "burn on a GPU, or a software one",
            "test --profile wgpu -p burn-digits --features wgpu --test wgpu -- --test-threads 1",
        ),
        Step::cargo("tch plugin", "test --release -p tch-plugin --features kineto-oracle")
            .variables(&libtorch),
        Step::cargo("tch example", "test --release -p tch-digits").variables(&libtorch),
        Step::cargo(
            "tch plugin and example, newest tch",
            "test --release -p tch-plugin -p tch-digits --features tch-plugin/kineto-oracle \
             --manifest-path",
        )
        .argument(newest::source().join("Cargo.toml"))
        .argument("--target-dir")
        .argument(newest::folder().join("build"))
        .variables(&newest_libtorch)
        .after(newest::prepare),
        Step::cargo("end to end", "test --release -p tests").variables(&libtorch),
    ];
    steps.extend(miri::steps());
    run_all(&steps)
}
