//! Python: the reader that users of `.prof` and JSON files have.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Runs a script with the standard library only. `arguments` are its `sys.argv[1:]`.
///
/// Panics with what the script wrote to standard error if it fails. Returns what it printed.
pub fn run(script: &str, arguments: &[&Path]) -> String {
    run_with(Path::new("python3"), script, arguments)
}

/// Runs a script that may also import snakeviz.
pub fn run_with_snakeviz(script: &str, arguments: &[&Path]) -> String {
    static PYTHON: OnceLock<PathBuf> = OnceLock::new();
    let python = PYTHON.get_or_init(|| environment_with("snakeviz", "snakeviz==2.2.2"));
    run_with(python, script, arguments)
}

fn run_with(python: &Path, script: &str, arguments: &[&Path]) -> String {
    let mut command = Command::new(python);
    command.arg("-c").arg(script).args(arguments).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| {
        panic!("cannot run {}: {error}. These tests need Python 3.", python.display())
    });
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "python failed:\n{stderr}\nscript:\n{script}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A virtual environment in the folder of build output, made once.
fn environment_with(module: &str, requirement: &str) -> PathBuf {
    let directory = crate::target_directory().join("python").join(module);
    let python = directory.join(if cfg!(windows) { "Scripts/python.exe" } else { "bin/python" });
    let has_module = Command::new(&python).args(["-c", &format!("import {module}")]).output();
    if has_module.is_ok_and(|output| output.status.success()) {
        return python;
    }
    let succeed = |command: &mut Command| {
        let output = command.stdin(Stdio::null()).output().expect("python3 runs");
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?} failed:\n{stderr}");
    };
    succeed(Command::new("python3").args(["-m", "venv", "--clear"]).arg(&directory));
    succeed(Command::new(&python).args(["-m", "pip", "install", "--quiet", requirement]));
    python
}
