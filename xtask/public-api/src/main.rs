//! Lists the public items of crates and compares them with the stored lists: `cargo xtask
//! public-api [--write]`.
//!
//! rustdoc on stable writes JSON only if `RUSTC_BOOTSTRAP` is set. The variable must not be set for
//! cargo, because build scripts would detect it and cause a full rebuild. This program therefore
//! replaces rustdoc, and calls it with the variable set.

mod compare;
mod list;

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Environment variable that is set while this program replaces rustdoc. It contains the real
/// rustdoc.
const RUSTDOC: &str = "MLPROF_XTASK_RUSTDOC";

/// Crates that are documented by one command.
struct CrateGroup {
    crates: &'static [&'static str],
    features: &'static [&'static str],
    /// Additional packages that are built with the crates, so that lints and documentation share
    /// their build.
    beside: &'static [&'static str],
}

const COMMANDS: [CrateGroup; 4] = [
    CrateGroup {
        crates: &[
            "mlprof-events",
            "mlprof-analysis",
            "mlprof-report",
            "mlprof-sampler",
            "mlprof-trace",
            "mlprof-core",
            "mlprof-cuda",
            "mlprof-live",
            "mlprof-macros",
            "mlprof-train",
        ],
        features: &["--all-features"],
        beside: &[],
    },
    CrateGroup {
        crates: &["mlprof-burn"],
        features: &["--features", "mlprof-burn/rl,mlprof-burn/tracing"],
        beside: &["--package", "burn-digits", "--features", "burn-digits/wgpu"],
    },
    CrateGroup { crates: &["mlprof-candle"], features: &["--all-features"], beside: &[] },
    CrateGroup { crates: &["mlprof-tch"], features: &[], beside: &[] },
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

/// Runs the real rustdoc with the arguments from cargo, and enables JSON output.
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
    for together in COMMANDS {
        let documented = document(&together)?;
        for name in together.crates {
            let json = documented.join(format!("{}.json", name.replace('-', "_")));
            let Some(found) = list::of_crate(&json)? else { return Ok(()) };
            let found = list::page(name, together.features, &found);
            let path = folder.join(format!("{name}.txt"));
            if writes {
                std::fs::create_dir_all(folder).map_err(|error| explain(folder, error))?;
                std::fs::write(&path, found).map_err(|error| explain(&path, error))?;
                continue;
            }
            let kept = std::fs::read_to_string(&path).unwrap_or_default();
            differences.extend(compare::difference(name, &kept, &found));
        }
    }
    if differences.is_empty() {
        return Ok(());
    }
    Err(format!(
        "the public items differ from the lists in {}:\n\n{}\nhelp: if the change is intended, \
         run cargo xtask public-api --write",
        folder.display(),
        differences.join("\n")
    ))
}

fn explain(path: &Path, error: std::io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Documents the crates and returns the folder with rustdoc's JSON.
fn document(together: &CrateGroup) -> Result<PathBuf, String> {
    let own = env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    // <target>/<profile>/xtask-public-api
    let target = own.ancestors().nth(2).unwrap_or(Path::new("target")).to_owned();
    let rustdoc = env::var_os("RUSTDOC").unwrap_or_else(|| "rustdoc".into());
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    for (name, _) in env::vars_os() {
        let shown = name.to_string_lossy();
        // `cargo run` sets these variables to describe this program.
        if shown.starts_with("CARGO_PKG_") || shown.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    // The arguments match those of lints and documentation, so that dependencies are not checked
    // again.
    cargo.args(["doc", "--quiet", "--no-deps", "--lib"]);
    cargo.args(["--package", "feature-unification"]);
    cargo.args(together.crates.iter().flat_map(|name| ["--package", name]));
    cargo.args(together.features).args(together.beside);
    cargo.arg("--target-dir").arg(&target);
    // Lints run in a separate step.
    let flags = "-Zunstable-options --output-format json --cap-lints allow";
    cargo.env("RUSTDOC", &own).env(RUSTDOC, rustdoc).env("RUSTDOCFLAGS", flags);
    let status = cargo.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!("rustdoc of {} failed ({status})", together.crates.join(", ")));
    }
    Ok(target.join("doc"))
}
