//! Tests `mlprof run` with the examples: ops of frameworks without a hook.

mod burn;
mod candle;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};

use mlprof_core::Report;
use mlprof_core::report::tensor::KeyAverage;
use mlprof_core::report::{NumericsReport, TensorReport};
use tests::program::{self, Finished, Run};
use tests::target_directory;

/// Returns the folder of the workspace.
fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Runs an example under `mlprof run`. `cargo` contains the options of `cargo run`, including the
/// profile, and `arguments` those of the program. Results are written to `results`.
fn run(options: &[&str], cargo: &[&str], arguments: &[&str], results: &Path) -> Finished {
    let _turn = turn();
    prepared(options, cargo, arguments, results).succeed()
}

/// Serialises runs. Two builds in one folder with different hooks would overwrite each other's
/// output.
fn turn() -> MutexGuard<'static, ()> {
    static RUNNING: Mutex<()> = Mutex::new(());
    RUNNING.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Builds the example as [`run`] does, but does not run it. The caller must hold the lock of
/// [`turn`].
fn prepared(options: &[&str], cargo: &[&str], arguments: &[&str], results: &Path) -> Run {
    let mlprof = program::build("mlprof", "mlprof");
    let common = ["run".as_ref(), "--output".as_ref(), results.as_os_str()];
    let options: Vec<_> =
        common.into_iter().chain(options.iter().map(|one| one.as_ref())).collect();
    let build = Command::new(&mlprof)
        .args(&options)
        .args(["--", "cargo", "build"])
        .args(cargo)
        .current_dir(workspace())
        .env("CARGO_TARGET_DIR", target_directory())
        .stdin(Stdio::null())
        .output()
        .expect("mlprof runs");
    let said = String::from_utf8_lossy(&build.stderr);
    assert!(build.status.success(), "{said}");
    assert!(!said.contains("warning: candle") && !said.contains("warning: burn"), "{said}");
    Run::of(&mlprof, &workspace())
        .args(&options)
        .args(["--", "cargo", "run"])
        .args(cargo)
        .arg_list(arguments)
        .env("CARGO_TARGET_DIR", target_directory())
}

/// Returns the only file in `results` whose name has this beginning and ending.
fn file(results: &Path, beginning: &str, ending: &str) -> PathBuf {
    let names: Vec<PathBuf> = std::fs::read_dir(results)
        .expect("results")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.starts_with(beginning) && name.ends_with(ending)
        })
        .collect();
    assert_eq!(names.len(), 1, "{beginning}*{ending}: {names:?}");
    names[0].clone()
}

/// Returns the op report in `results` of the stage and program in `beginning`.
fn report(results: &Path, beginning: &str) -> TensorReport {
    let json = std::fs::read_to_string(file(results, beginning, "-ops.json")).expect("a report");
    match Report::from_json(&json).expect("a report") {
        Report::Tensor(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Returns the numerics report of that stage and program.
fn numerics(results: &Path, beginning: &str) -> NumericsReport {
    let file = file(results, beginning, "-numerics.json");
    let json = std::fs::read_to_string(file).expect("a report");
    match Report::from_json(&json).expect("a report") {
        Report::Numerics(report) => report,
        other => panic!("{other:?}"),
    }
}

/// Returns the rows of one op.
fn rows<'a>(report: &'a TensorReport, name: &str) -> Vec<&'a KeyAverage> {
    report.key_averages.rows.iter().filter(|row| row.name == name).collect()
}

/// Returns the number of calls per recorded step.
fn calls_per_step(report: &TensorReport, name: &str) -> f64 {
    let calls: u64 = rows(report, name).iter().map(|row| row.calls).sum();
    calls as f64 / report.recorded_steps as f64
}
