//! Builds the runtime library, which is embedded in the `mlprof` command. In the workspace, the
//! library is built from its package. A published package has no workspace, so it is built from the
//! copy of its source in `runtime/`.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Environment variable with the path of a prebuilt library, or of an empty file if no program will
/// be run.
const NAMED: &str = "MLPROF_RUNTIME_LIBRARY";

fn main() {
    println!("cargo::rerun-if-env-changed={NAMED}");
    let library = match env::var_os(NAMED).map(PathBuf::from) {
        Some(named) => {
            println!("cargo::rerun-if-changed={}", named.display());
            named
        }
        // The command runs programs on Linux only. A documentation build elsewhere cannot build the
        // library.
        None if !is_needed() => {
            let nothing = folder("OUT_DIR").join("no-runtime");
            fs::write(&nothing, []).expect("cargo's folder for output is written to");
            nothing
        }
        None => build(),
    };
    println!("cargo::rustc-env={NAMED}={}", library.display());
}

fn folder(variable: &str) -> PathBuf {
    env::var_os(variable).map(PathBuf::from).unwrap_or_default()
}

fn is_needed() -> bool {
    env::var("CARGO_CFG_TARGET_OS").is_ok_and(|system| system == "linux")
        && env::var_os("DOCS_RS").is_none()
}

fn build() -> PathBuf {
    let package = folder("CARGO_MANIFEST_DIR");
    let out = folder("OUT_DIR");
    // `out` is <target>/<profile>/build/<package>/out. All optimised profiles share one folder in
    // <target>, and all others share another.
    let name = if is_optimized() { "mlprof-runtime" } else { "mlprof-runtime-quick" };
    let target = out.ancestors().nth(4).unwrap_or(&out).join(name);
    let workspace = package.join("..");
    if workspace.join("mlprof-runtime/Cargo.toml").is_file() {
        watch(&workspace);
        let library = build_package(&workspace.join("Cargo.toml"), &target, &[]);
        return library.unwrap_or_else(|reason| panic!("{reason}"));
    }
    println!("cargo::rerun-if-changed=runtime");
    let manifest = write_package(&package, &out.join("runtime"));
    // The library's dependencies were already downloaded for the command, so an offline build
    // usually works.
    let offline = build_package(&manifest, &target, &["--offline"]);
    let library = offline.or_else(|_| build_package(&manifest, &target, &[]));
    library.unwrap_or_else(|reason| panic!("{reason}"))
}

/// Reruns the build script if a crate that may be part of the library changes.
fn watch(workspace: &Path) {
    println!("cargo::rerun-if-changed={}", workspace.join("Cargo.lock").display());
    for entry in fs::read_dir(workspace).into_iter().flatten().flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let above =
            ["mlprof-analysis", "mlprof-cuda", "mlprof-instrument", "mlprof-sql", "mlprof-train"];
        let is_above = above.contains(&name.as_str());
        if (name.starts_with("mlprof-") || name == "profiler-core") && !is_above {
            // A watched path that does not exist would rerun the build script each time.
            let watched = ["src", "Cargo.toml", "build.rs"].map(|name| entry.path().join(name));
            for watched in watched.iter().filter(|watched| watched.exists()) {
                println!("cargo::rerun-if-changed={}", watched.display());
            }
        }
    }
}

/// Writes a package for the published source and returns its manifest's path. Other mlprof crates
/// are patched to the copies unpacked beside this package, because cargo may not find them
/// elsewhere.
fn write_package(package: &Path, folder: &Path) -> PathBuf {
    let version = env::var("CARGO_PKG_VERSION").unwrap_or_default();
    let source = package.join("runtime/lib.rs");
    let dependencies = runtime_dependencies(package, &version);
    let mut manifest = format!(
        "[package]\nname = \"mlprof-runtime\"\nversion = {version:?}\nedition = \"2024\"\n\n\
         [lib]\nname = \"mlprof_runtime\"\ncrate-type = [\"cdylib\"]\npath = {source:?}\n\n\
         {dependencies}\n[workspace]\n\n[patch.crates-io]\n"
    );
    let beside = fs::read_dir(package.join("..")).into_iter().flatten().flatten();
    for entry in beside {
        let folder = entry.file_name().to_string_lossy().into_owned();
        let name = folder.strip_suffix(version.as_str()).and_then(|name| name.strip_suffix('-'));
        let Some(name) = name.filter(|name| name.starts_with("mlprof-")) else { continue };
        manifest += &format!("{name} = {{ path = {:?} }}\n", entry.path());
    }
    let write = || {
        fs::create_dir_all(folder)?;
        // The lock file pins the same dependency versions as the command itself.
        if let Ok(lock) = fs::read(package.join("Cargo.lock")) {
            fs::write(folder.join("Cargo.lock"), lock)?;
        }
        fs::write(folder.join("Cargo.toml"), manifest)
    };
    write().expect("cargo's folder for output is written to");
    folder.join("Cargo.toml")
}

/// Returns the library's dependencies with the version of the command, from its manifest in the
/// workspace, which the published package has as `runtime.toml`.
fn runtime_dependencies(package: &Path, version: &str) -> String {
    let manifest = fs::read_to_string(package.join("runtime.toml"));
    let manifest = manifest.expect("the package has the manifest of its runtime library");
    let section = manifest.lines().skip_while(|line| *line != "[dependencies]");
    let section = section.enumerate().take_while(|(at, line)| *at == 0 || !line.starts_with('['));
    let of_version = format!("version = \"={version}\"");
    section.map(|(_, line)| line.replace("workspace = true", &of_version) + "\n").collect()
}

/// Returns `true` if the command is built in release mode, as for users, and not for tests.
fn is_optimized() -> bool {
    env::var("PROFILE").is_ok_and(|profile| profile == "release")
}

/// Crates that write reports and traces and answer live requests. They are more than half of the
/// code to optimise, and none of them runs on the measured path.
const WRITERS: [&str; 3] = ["mlprof-report", "mlprof-trace", "mlprof-live"];

/// Builds the package in release mode and returns the library's path. Programs of any profile link
/// the library, so the measuring code is always optimised.
fn build_package(manifest: &Path, target_folder: &Path, more: &[&str]) -> Result<PathBuf, String> {
    let target = env::var("TARGET").unwrap_or_default();
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo
        .args(["build", "--release", "--lib", "--package", "mlprof-runtime", "--target", &target])
        .args(more)
        .arg("--manifest-path")
        .arg(manifest)
        .arg("--target-dir")
        .arg(target_folder)
        // Lints and instrumentation of the outer build do not apply to the library.
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .env_remove("RUSTC_WRAPPER")
        .env_remove("RUSTC_WORKSPACE_WRAPPER")
        .env("CARGO_PROFILE_RELEASE_DEBUG", "0")
        .env("CARGO_PROFILE_RELEASE_STRIP", "symbols");
    if !is_optimized() {
        let setting = |writer| format!("profile.release.package.{writer}.opt-level=0");
        cargo.args(WRITERS.iter().flat_map(|writer| ["--config".to_owned(), setting(writer)]));
    }
    let status = cargo.status();
    if !status.as_ref().is_ok_and(|status| status.success()) {
        return Err(format!("cannot build the runtime library: {status:?}"));
    }
    Ok(target_folder.join(target).join("release/libmlprof_runtime.so"))
}
