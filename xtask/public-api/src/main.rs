//! Lists the public items of crates, and compares them with the lists that are kept:
//! `cargo xtask public-api [--write]`.
//!
//! rustdoc tells them as JSON, which it does on stable only when it is told that it may. Only it is: for
//! cargo, build scripts would see a difference, and everything would be built again. So this program
//! stands in for rustdoc, and calls it.

mod compare;
mod list;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Set while this program stands in for rustdoc: which one it is.
const RUSTDOC: &str = "MLPROF_XTASK_RUSTDOC";

/// Crates, and what to document them with.
const CRATES: [(&str, &[&str]); 13] = [
    ("profiler-events", &[]),
    ("profiler-analysis", &["--all-features"]),
    ("profiler-report", &["--all-features"]),
    ("profiler-sampler", &["--all-features"]),
    ("profiler-trace", &["--all-features"]),
    ("profiler-core", &["--all-features"]),
    ("profiler-cuda", &[]),
    ("profiler-live", &["--all-features"]),
    ("profiler-macros", &[]),
    ("profiler-train", &[]),
    ("burn-plugin", &[]),
    ("candle-plugin", &["--all-features"]),
    ("tch-plugin", &[]),
];

fn main() -> ExitCode {
    if let Some(rustdoc) = env::var_os(RUSTDOC) {
        return stand_in(rustdoc.as_ref());
    }
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (writes, folder) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [folder] => (false, PathBuf::from(folder)),
        ["--write", folder] => (true, PathBuf::from(folder)),
        _ => {
            eprintln!("Usage: xtask-public-api [--write] <folder of the lists>");
            return ExitCode::from(2);
        }
    };
    match run(writes, &folder) {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("error: {message}");
            ExitCode::FAILURE
        }
    }
}

/// rustdoc itself, as cargo called this program, and with leave to write JSON.
fn stand_in(rustdoc: &Path) -> ExitCode {
    let mut command = Command::new(rustdoc);
    command.args(env::args_os().skip(1)).env_remove(RUSTDOC).env("RUSTC_BOOTSTRAP", "1");
    match command.status() {
        Ok(status) if status.success() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: cannot run {}: {error}", rustdoc.display());
            ExitCode::FAILURE
        }
    }
}

fn run(writes: bool, folder: &Path) -> Result<(), String> {
    let mut differences = Vec::new();
    for (name, options) in CRATES {
        let Some(found) = list::of_crate(&document(name, options)?)? else { return Ok(()) };
        let found = list::page(name, options, &found);
        let path = folder.join(format!("{name}.txt"));
        if writes {
            std::fs::create_dir_all(folder).map_err(|error| explain(folder, error))?;
            std::fs::write(&path, found).map_err(|error| explain(&path, error))?;
            continue;
        }
        let kept = std::fs::read_to_string(&path).unwrap_or_default();
        differences.extend(compare::difference(name, &kept, &found));
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public items are not those in {}:\n\n{}\nIf that is meant: cargo xtask public-api --write",
        folder.display(),
        differences.join("\n")
    ))
}

fn explain(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Where rustdoc has put what it knows of the crate.
fn document(package: &str, options: &[&str]) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    // <target>/<profile>/xtask-public-api
    let target = own.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned();
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let shown = name.to_string_lossy();
        // What `cargo run` told this program about itself.
        if shown.starts_with("CARGO_PKG_") || shown.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    // The profile that the lints have looked at what it stands on with.
    let profile = if package == "burn-plugin" { "quick" } else { "release" };
    cargo.args(["rustdoc", "--quiet", "--profile", profile, "--lib", "--package", package]);
    cargo.args(options);
    cargo.arg("--target-dir").arg(&target);
    // Lints have a step of their own.
    cargo.args(["--", "-Zunstable-options", "--output-format", "json", "--cap-lints", "allow"]);
    cargo.env("RUSTDOC", &own).env(RUSTDOC, rustdoc);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!("rustdoc of {package} failed ({status})"));
    }
    Ok(target.join("doc").join(format!("{}.json", package.replace('-', "_"))))
}
