//! `cargo xtask check`: formatting, lints, documentation, and what users of published crates meet.

use std::fs;

use crate::libtorch::{Libtorch, Variables};
use crate::steps::{Step, run_all, target_directory};
use crate::{features, msrv, packages, page, platforms, public_api};

/// Checks all packages but `gpu-check`, which brings burn's CUDA backend: it takes minutes to build,
/// and is of use only where there is a GPU. All in the ordinary profile, which optimises nothing: but for build scripts and macros nothing
/// is run, and what all of it stands on is looked at once. All lints are asked for in the same words, `--no-deps` too: cargo looks at a crate
/// again when these are others than last time.
pub fn run() -> Result<(), String> {
    // The build scripts of tch's parts run for lints and documentation too.
    let libtorch = Libtorch::of_workspace()?.variables();
    let mut steps = vec![
        Step::cargo("formatting", "fmt --all --check"),
        // A workspace of its own, whose lints its tests run.
        Step::cargo("formatting of mlprof-sql", "fmt --all --manifest-path mlprof-sql/Cargo.toml --check"),
        Step::cargo(
            "formatting of burn-plugin-next",
            "fmt --manifest-path burn-plugin/next/Cargo.toml -p burn-plugin-next -p burn-digits-next --check",
        ),
        Step::cargo(
            "lints",
            "clippy --no-deps --workspace --exclude gpu-check --exclude burn-plugin \
             --exclude burn-digits --all-targets -- -D warnings",
        )
        .variables(&libtorch),
        Step::cargo(
            "lints of burn's plugin and example",
            "clippy --no-deps -p feature-unification -p burn-plugin -p burn-digits --all-targets \
             --features burn-plugin/rl,burn-plugin/tracing,burn-digits/wgpu -- -D warnings",
        ),
        Step::cargo(
            "lints of the core, all features",
            "clippy --no-deps -p feature-unification -p profiler-events -p profiler-core -p profiler-report -p profiler-sampler -p profiler-trace \
             -p profiler-analysis -p profiler-cuda -p profiler-live -p profiler-macros --all-features --all-targets -- -D warnings",
        ),
        Step::cargo(
            "lints of what compares with torch's profiler",
            "clippy --no-deps -p feature-unification -p tch-plugin -p tch-digits --all-targets \
             --features tch-plugin/kineto-oracle,tch-digits/kineto -- -D warnings",
        )
        .variables(&libtorch),
        Step::cargo(
            "documentation",
            "doc --workspace --exclude gpu-check --exclude burn-plugin \
             --exclude burn-digits --no-deps",
        )
        .variables(&libtorch)
        .env("RUSTDOCFLAGS", "-D warnings"),
        Step::cargo(
            "documentation of burn's plugin and example",
            "doc -p feature-unification -p burn-plugin -p burn-digits --no-deps \
             --features burn-plugin/rl,burn-plugin/tracing,burn-digits/wgpu",
        )
        .env("RUSTDOCFLAGS", "-D warnings"),
        Step::cargo(
            "documentation of the core, all features",
            "doc -p feature-unification -p profiler-core -p profiler-report -p profiler-sampler -p profiler-trace \
             -p profiler-analysis -p profiler-cuda -p profiler-live --all-features --no-deps",
        )
        .env("RUSTDOCFLAGS", "-D warnings"),
    ];
    steps.push(page::step());
    steps.push(packages::step()?);
    steps.push(public_api::step(false)?);
    steps.extend(msrv::step());
    steps.extend(features::steps(&libtorch)?);
    steps.extend(platforms::steps());
    let no_runtime = no_runtime()?;
    let steps = steps.into_iter().map(|step| step.variables(&no_runtime));
    run_all(&steps.collect::<Vec<_>>())
}

/// The library that the command puts into programs is built for a program that is run, and none is.
fn no_runtime() -> Result<Variables, String> {
    let empty = target_directory().join("no-runtime");
    fs::create_dir_all(target_directory())
        .and_then(|()| fs::write(&empty, []))
        .map_err(|error| format!("cannot write {}: {error}", empty.display()))?;
    Ok(vec![("MLPROF_RUNTIME_LIBRARY", Some(empty.into()))])
}
