//! The parts of the tests and their dependencies.

use std::path::Path;

use super::builds::{self, Together};
use super::{aarch64, sanitizers, sql, windows};
use crate::libtorch::{Libtorch, Variables, version, workspace};
use crate::steps::{Step, target_directory};
use crate::{loom_compiler, metadata, miri, newest, packages};

/// A group of tests that can run separately.
pub struct Part {
    pub name: &'static str,
    pub about: &'static str,
    /// Folders and files whose changes affect this part, in addition to [`EVERYWHERE`].
    stands_on: &'static [&'static str],
    pub steps: fn() -> Result<Vec<Step>, String>,
}

/// Files that affect every part.
const EVERYWHERE: [&str; 4] = ["Cargo.toml", "Cargo.lock", "rust-toolchain.toml", ".ci"];

impl Part {
    /// Returns `true` if a change of this file can affect the part.
    pub fn is_reached_by(&self, file: &str) -> bool {
        let is_in = |places: &[&str]| {
            let rest = |place: &&str| file.strip_prefix(*place);
            let mut rests = places.iter().filter_map(rest);
            rests.any(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        let is_known = PARTS.iter().any(|part| is_in(part.stands_on)) || is_in(&UNTESTED);
        is_in(self.stands_on) || is_in(&EVERYWHERE) || !is_known
    }
}

/// Files that no test reads.
const UNTESTED: [&str; 6] = [
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    // `cargo xtask check` runs this package.
    "tests/without-a-clock",
];

macro_rules! core_and {
    ($($place:literal),*) => {
        &[
            "mlprof-events",
            "mlprof-report",
            "mlprof-sampler",
            "mlprof-trace",
            "profiler-core",
            "mlprof-macros",
            $($place),*
        ]
    };
}

/// All parts in execution order.
pub const PARTS: [Part; 12] = [
    Part {
        name: "core",
        about: "events, reports, sampler, traces, core, macros, training loop, NVIDIA devices, \
                examples of the guide",
        stands_on: core_and!(
            "mlprof-train",
            "mlprof-analysis",
            "mlprof-cuda",
            "mlprof-live",
            "docs"
        ),
        steps: core,
    },
    Part {
        name: "loom",
        about: "data shared between threads, in all possible orders (loom)",
        stands_on: core_and!("mlprof-cuda"),
        steps: loom,
    },
    Part {
        name: "tool",
        about: "cargo xtask, and the structure of the workspace",
        // One test reads all files of all crates.
        stands_on: core_and!(
            "xtask",
            "mlprof-train",
            "mlprof-cuda",
            "mlprof-live",
            "mlprof-analysis",
            "mlprof-instrument",
            "mlprof",
            "mlprof-runtime",
            "burn-plugin",
            "candle-plugin",
            "tch-plugin",
            "examples",
            "benches",
            "tests",
            "gpu-check",
            "mlprof-sql"
        ),
        steps: || Ok(vec![Step::cargo("this tool", "test -p xtask").beside()]),
    },
    Part {
        name: "sql",
        about: "SQL over traces: mlprof-sql, compared with other engines",
        stands_on: core_and!("mlprof-analysis", "mlprof-sql"),
        steps: || Ok(sql::steps()),
    },
    Part {
        name: "cli",
        about: "the command mlprof",
        stands_on: core_and!("mlprof-analysis", "mlprof-instrument", "mlprof", "mlprof-runtime"),
        steps: || Ok(vec![command("the command mlprof, and questions to traces")]),
    },
    Part {
        name: "benches",
        about: "the benchmark programs",
        stands_on: core_and!("benches"),
        steps: || Ok(vec![unified(Step::cargo("benchmarks", "test --profile quick -p benches"))]),
    },
    Part {
        name: "candle",
        about: "mlprof-candle and the examples that use it",
        stands_on: core_and!(
            "mlprof-train",
            "mlprof-cuda",
            "mlprof-live",
            "candle-plugin",
            "examples/candle-digits",
            "examples/candle-text",
            "examples/candle-workers",
            "examples/digits",
            "examples/parallel-training",
            "examples/command-line",
            "tests/packed",
            "README.md"
        ),
        steps: || {
            Ok(vec![together("candle plugin and examples", &builds::CANDLE), packages::run_step()])
        },
    },
    Part {
        name: "burn",
        about: "mlprof-burn and its example, on the CPU and on a GPU or a software GPU",
        stands_on: core_and!(
            "burn-plugin",
            "examples/burn-digits",
            "examples/command-line",
            "README.md"
        ),
        steps: burn,
    },
    Part {
        name: "tch",
        about: "mlprof-tch and its example",
        stands_on: core_and!(
            "mlprof-train",
            "tch-plugin",
            "examples/tch-digits",
            "examples/digits",
            "examples/parallel-training",
            "examples/command-line"
        ),
        steps: tch,
    },
    Part {
        name: "newest",
        about: "mlprof-tch and its example with the newest tch",
        stands_on: core_and!(
            "mlprof-train",
            "tch-plugin",
            "examples/tch-digits",
            "examples/digits",
            "examples/parallel-training"
        ),
        steps: newest_tch,
    },
    Part {
        name: "e2e",
        about: "whole programs, and their files read by Python",
        stands_on: core_and!(
            "mlprof-train",
            "mlprof-analysis",
            "mlprof-instrument",
            "mlprof",
            "mlprof-runtime",
            "burn-plugin",
            "candle-plugin",
            "tch-plugin",
            "examples",
            "tests",
            "xtask/src/npm.rs"
        ),
        steps: end_to_end,
    },
    Part {
        name: "miri",
        about: "the core's unsafe code under Miri, if installed",
        stands_on: core_and!(),
        steps: || Ok(miri::steps()),
    },
];

/// Parts that run only on request: they take long, and few changes depend on the processor or the
/// operating system.
pub const ON_REQUEST: [Part; 6] = [
    Part {
        name: "burn-next",
        about: "mlprof-burn and its example with burn 0.23, on the CPU; only by name",
        stands_on: core_and!("burn-plugin", "examples/burn-digits", "tests"),
        steps: burn_next,
    },
    Part {
        name: "aarch64",
        about: "libraries of the core for aarch64 under qemu, if installed; only by name",
        stands_on: core_and!("mlprof-train"),
        steps: || Ok(aarch64::steps()),
    },
    Part {
        name: "windows",
        about: "core and training loop for Windows under wine, if installed; only by name",
        stands_on: core_and!("mlprof-train"),
        steps: || Ok(windows::steps()),
    },
    Part {
        name: "sanitizers",
        about: "core and sampler under AddressSanitizer and ThreadSanitizer; only by name",
        stands_on: core_and!(),
        steps: || Ok(sanitizers::steps()),
    },
    Part {
        name: "cluster",
        about: "SQL over traces on a Ballista cluster; only by name",
        stands_on: core_and!("mlprof-analysis", "mlprof-sql"),
        steps: || Ok(sql::cluster()),
    },
    Part {
        name: "spark",
        about: "SQL over traces with Spark, if Java is installed; only by name",
        stands_on: core_and!("mlprof-analysis", "mlprof-sql"),
        steps: || Ok(sql::spark()),
    },
];

/// Returns a step that runs the tests of the command and of trace analysis.
pub fn command(title: &str) -> Step {
    together(title, &builds::COMMAND)
}

/// Returns the test step of packages whose programs the end-to-end tests run, in the same build.
fn together(title: &str, built: &Together) -> Step {
    built.arguments().fold(Step::cargo(title, "test"), Step::argument)
}

/// Adds the package that enables the dependency features which other parts need.
fn unified(step: Step) -> Step {
    step.argument("--package").argument(builds::UNIFICATION)
}

const CORE: [&str; 9] = [
    "mlprof-core",
    "mlprof-events",
    "mlprof-report",
    "mlprof-sampler",
    "mlprof-trace",
    "mlprof-macros",
    "mlprof-train",
    "mlprof-cuda",
    "mlprof-live",
];

/// Returns the steps of the core. Tests run with all features, which include the default features.
/// The lints check that all combinations compile, and a separate test checks the messages without
/// features. The profile is the one for burn, so that both share dependencies. The tests of
/// monitored programs mostly wait, so they run in parallel with the others.
fn core() -> Result<Vec<Step>, String> {
    let libtorch = Libtorch::of_workspace()?.variables();
    let step = |title: &str, targets: &str| {
        let step = unified(Step::cargo(title, "test --profile quick --all-features"));
        let step = CORE.iter().fold(step, |step, package| step.argument("-p").argument(*package));
        let step = targets.split_whitespace().fold(step, Step::argument);
        step.variables(&cupti_of(&libtorch))
    };
    let without = "test --profile quick -p mlprof-core -p mlprof-live --no-default-features --test missing --test live";
    Ok(vec![
        step("core, loop and devices", &format!("--lib{}", tests_but(&CORE, &["live"])?)),
        step("programs that are looked into", "--test live").beside(),
        step("examples in the documentation of core", "--doc").beside(),
        unified(Step::cargo("what is said without features", without)),
    ])
}

/// Returns cargo arguments for all integration tests of these packages, except `others`.
fn tests_but(packages: &[&str], others: &[&str]) -> Result<String, String> {
    let tests = metadata::tests_of(packages)?;
    let named = tests.iter().filter(|name| !others.contains(&&***name));
    Ok(named.map(|name| format!(" --test {name}")).collect())
}

/// Returns variables with paths of the libtorch installation. Tests use its libcupti to check the
/// behaviour of a real one without a driver. They use libtorch itself to compare its dynolog client
/// with ours.
fn cupti_of(libtorch: &Variables) -> Variables {
    let folder = libtorch.iter().find(|(name, _)| *name == "LIBTORCH");
    let Some(folder) = folder.and_then(|(_, folder)| folder.as_deref()) else { return Vec::new() };
    let named =
        [("MLPROF_TEST_CUPTI", "libcupti.so.12"), ("MLPROF_TEST_LIBTORCH", "libtorch_cpu.so")];
    let paths = named.map(|(variable, name)| (variable, Path::new(folder).join("lib").join(name)));
    let there = paths.into_iter().filter(|(_, path)| path.exists());
    there.map(|(variable, path)| (variable, Some(path.into_os_string()))).collect()
}

/// Returns the loom tests. Loom replaces the atomics in this workspace's crates and tries all
/// interleavings, so these crates are slightly optimised.
fn loom() -> Result<Vec<Step>, String> {
    let packages = "test --profile quick -p mlprof-events -p mlprof-trace -p mlprof-sampler -p mlprof-core -p mlprof-cuda \
                    --no-default-features --features mlprof-core/default --lib loom";
    let optimized = [
        "mlprof-events",
        "mlprof-trace",
        "mlprof-sampler",
        "mlprof-core",
        "mlprof-cuda",
        "loom",
        "generator",
    ];
    let step = unified(Step::cargo("core under loom", packages));
    let step = optimized.iter().fold(step, |step, package| {
        step.argument("--config").argument(format!("profile.quick.package.{package}.opt-level=1"))
    });
    Ok(vec![step.variables(&loom_compiler::variables()?).must_run_tests().beside()])
}

/// Returns the burn tests, which run one at a time, because cubecl supports only one launch
/// observer per process.
fn burn() -> Result<Vec<Step>, String> {
    let step = together("burn plugin and example", &builds::BURN);
    Ok(vec![step.env("RUST_TEST_THREADS", "1")])
}

/// Returns the tests with the unreleased burn version: the plugin's tests, and those that run the
/// example like users do.
fn burn_next() -> Result<Vec<Step>, String> {
    let next = |title: &str, command: &str| {
        let step = builds::BURN_NEXT.arguments().fold(Step::cargo(title, command), Step::argument);
        let step = step.argument("--manifest-path");
        let step = step.argument(workspace().join(builds::BURN_NEXT_MANIFEST));
        let step = step.argument("--target-dir");
        step.argument(target_directory().join(builds::BURN_NEXT_FOLDER))
    };
    let programs = "test --profile quick -p tests --test burn_digits";
    Ok(vec![
        next("burn plugin with burn 0.23", "test").env("RUST_TEST_THREADS", "1"),
        unified(Step::cargo("end to end: burn 0.23", programs))
            .variables(&Libtorch::of_workspace()?.variables())
            .env(builds::BURN_NEXT_VARIABLE, "1")
            .env("RUST_TEST_THREADS", "1"),
    ])
}

fn tch() -> Result<Vec<Step>, String> {
    let libtorch = Libtorch::of_workspace()?.variables();
    Ok(vec![together("tch plugin and example", &builds::TCH).variables(&libtorch)])
}

fn newest_tch() -> Result<Vec<Step>, String> {
    let libtorch = Libtorch::named_or_made(version::newest())?.variables();
    let step = Step::cargo(
        "tch plugin and example, newest tch",
        "test --profile quick -p mlprof-tch -p tch-digits --features mlprof-tch/kineto-oracle \
         --manifest-path",
    );
    let step = step.argument(newest::source().join("Cargo.toml")).argument("--target-dir");
    let step = step.argument(newest::folder().join("build")).variables(&libtorch);
    Ok(vec![step.after(newest::prepare)])
}

/// Returns the end-to-end tests in two parallel lanes. In each lane, programs run one at a time.
/// Many of them wait for a slow disk or for another process.
fn end_to_end() -> Result<Vec<Step>, String> {
    let libtorch = Libtorch::of_workspace()?.variables();
    let step = |title: &str, targets: &str| {
        let step = Step::cargo(title, "test --profile quick -p tests").variables(&libtorch);
        targets.split_whitespace().fold(unified(step), Step::argument)
    };
    let first = ["candle_digits", "candle_text", "candle_workers", "mlprof_run"];
    let named: String = first.iter().map(|name| format!(" --test {name}")).collect();
    Ok(vec![
        step("end to end: what tests them", "--no-run"),
        step("end to end: candle", &named),
        step("end to end: all others", &format!("--lib{}", tests_but(&["tests"], &first)?))
            .beside(),
    ])
}
