//! Builds the runtime library, which the command carries with it.

use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let variable = |name: &str| env::var_os(name).map(PathBuf::from).unwrap_or_default();
    let workspace = variable("CARGO_MANIFEST_DIR").join("..");
    for watched in [
        "profiler-events/src",
        "profiler-events/Cargo.toml",
        "profiler-report/src",
        "profiler-report/Cargo.toml",
        "profiler-sampler/src",
        "profiler-sampler/Cargo.toml",
        "profiler-core/src",
        "profiler-core/Cargo.toml",
        "profiler-runtime",
        "Cargo.lock",
    ] {
        println!("cargo::rerun-if-changed={}", workspace.join(watched).display());
    }
    // <target>/<profile>/build/<package>/out: once for all profiles.
    let out = variable("OUT_DIR");
    let target = out.ancestors().nth(4).unwrap_or(&out);
    let library = build(&workspace, &target.join("mlprof-runtime"));
    println!("cargo::rustc-env=MLPROF_RUNTIME_LIBRARY={}", library.display());
}

/// The library is linked with programs of any kind, so it is optimised in every profile.
fn build(workspace: &Path, target_directory: &Path) -> PathBuf {
    let target = env::var("TARGET").unwrap_or_default();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--lib", "--package", "profiler-runtime", "--target", &target])
        .arg("--manifest-path")
        .arg(workspace.join("Cargo.toml"))
        .arg("--target-dir")
        .arg(target_directory)
        // Lints and instrumentation of the outer build are not meant for it.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    let status = cargo.status();
    assert!(
        status.as_ref().is_ok_and(|status| status.success()),
        "the runtime library could not be built: {status:?}"
    );
    let name = format!("{}mlprof_runtime{}", env::consts::DLL_PREFIX, env::consts::DLL_SUFFIX);
    target_directory.join(target).join("release").join(name)
}
