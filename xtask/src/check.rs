//! `cargo xtask check`: checks formatting, lints, documentation, and the published packages.

use std::fs;

use crate::libtorch::{Libtorch, Variables};
use crate::steps::{Step, run_all, target_directory};
use crate::{docs, features, linters, msrv, packages, page, platforms, public_api};

/// Checks all packages except `gpu-check`. That package needs burn's CUDA backend, which takes
/// minutes to build, and is only useful with a GPU.
///
/// All steps use the unoptimised default profile, because only build scripts and macros are
/// executed. Dependencies are checked once. All clippy steps use the same options, including
/// `--no-deps`, because cargo checks a crate again when the options change.
pub fn run() -> Result<(), String> {
    // The build scripts of tch's crates also run for lints and documentation.
    let libtorch = Libtorch::of_workspace()?.variables();
    let mut steps = vec![
        Step::cargo("formatting", "fmt --all --check"),
        // mlprof-sql is a separate workspace, and its tests run its lints.
        Step::cargo("formatting of mlprof-sql", "fmt --all --manifest-path mlprof-sql/Cargo.toml --check"),
        Step::cargo(
            "formatting of mlprof-burn-next",
            "fmt --manifest-path burn-plugin/next/Cargo.toml -p mlprof-burn-next -p burn-digits-next --check",
        ),
        Step::cargo(
            "lints",
            "clippy --no-deps --workspace --exclude gpu-check --exclude mlprof-burn \
             --exclude burn-digits --all-targets -- -D warnings",
        )
        .variables(&libtorch),
        Step::cargo(
            "lints of the checks on a GPU",
            "clippy --no-deps -p gpu-check --no-default-features --all-targets -- -D warnings",
        ),
        Step::cargo(
            "lints of burn's plugin and example",
            "clippy --no-deps -p feature-unification -p mlprof-burn -p burn-digits --all-targets \
             --features mlprof-burn/rl,mlprof-burn/tracing,burn-digits/wgpu -- -D warnings",
        ),
        Step::cargo(
            "lints of the core, all features",
            "clippy --no-deps -p feature-unification -p mlprof-events -p mlprof-core -p mlprof-report -p mlprof-sampler -p mlprof-trace \
             -p mlprof-analysis -p mlprof-cuda -p mlprof-live -p mlprof-macros --all-features --all-targets -- -D warnings",
        ),
        Step::cargo(
            "lints of the comparison with torch.profiler",
            "clippy --no-deps -p feature-unification -p mlprof-tch -p tch-digits --all-targets \
             --features mlprof-tch/kineto-oracle,tch-digits/kineto -- -D warnings",
        )
        .variables(&libtorch),
        Step::cargo(
            "documentation",
            "doc --workspace --exclude gpu-check --exclude mlprof-burn \
             --exclude burn-digits --no-deps",
        )
        .variables(&libtorch)
        .env("RUSTDOCFLAGS", "-D warnings"),
        Step::cargo(
            "documentation of burn's plugin and example",
            "doc -p feature-unification -p mlprof-burn -p burn-digits --no-deps \
             --features mlprof-burn/rl,mlprof-burn/tracing,burn-digits/wgpu",
        )
        .env("RUSTDOCFLAGS", "-D warnings"),
        Step::cargo(
            "documentation of the core, all features",
            "doc -p feature-unification -p mlprof-core -p mlprof-report -p mlprof-sampler -p mlprof-trace \
             -p mlprof-analysis -p mlprof-cuda -p mlprof-live --all-features --no-deps",
        )
        .env("RUSTDOCFLAGS", "-D warnings"),
    ];
    steps.extend(linters::steps());
    steps.push(docs::step());
    steps.push(page::step());
    steps.push(packages::step()?);
    steps.extend(packages::check_steps(&libtorch));
    steps.push(public_api::step(false)?);
    steps.extend(msrv::step());
    steps.extend(features::steps(&libtorch)?);
    steps.extend(platforms::steps());
    let no_runtime = no_runtime()?;
    let steps = steps.into_iter().map(|step| step.variables(&no_runtime));
    run_all(&steps.collect::<Vec<_>>())
}

/// Disables the build of the runtime library, which `mlprof run` adds to programs. No program is
/// run here.
fn no_runtime() -> Result<Variables, String> {
    let empty = target_directory().join("no-runtime");
    fs::create_dir_all(target_directory())
        .and_then(|()| fs::write(&empty, []))
        .map_err(|error| format!("cannot write {}: {error}", empty.display()))?;
    Ok(vec![("MLPROF_RUNTIME_LIBRARY", Some(empty.into()))])
}
