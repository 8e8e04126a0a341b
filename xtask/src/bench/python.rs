//! A virtual environment with PyTorch and Lightning, kept between runs.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::libtorch::{cache, workspace};
use crate::system;

/// Where the programs and their requirements are.
pub fn folder() -> PathBuf {
    workspace().join("benches/python")
}

/// Its interpreter. What is missing is installed; a run that was broken off goes on.
pub fn interpreter() -> Result<PathBuf, String> {
    let requirements = folder().join("requirements.txt");
    let wanted = fs::read(&requirements).map_err(|error| explain(&requirements, &error))?;
    let environment = cache()?.join("python-digits");
    let interpreter = environment.join("bin/python");
    // Written last.
    let installed = environment.join("installed-requirements.txt");
    if interpreter.exists() && fs::read(&installed).is_ok_and(|old| old == wanted) {
        return Ok(interpreter);
    }
    system::PYTHON.require()?;
    eprintln!(
        "installing PyTorch and Lightning in {}: 3 GB to download, 6 GB to keep. To go without \
         them: --only candle --only tch",
        environment.display()
    );
    run(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
    let mut pip = Command::new(&interpreter);
    pip.args([
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-cache-dir",
        "--disable-pip-version-check",
    ]);
    // Its temporary files are as large as the wheels: the usual place may be too small for them.
    pip.arg("--requirement").arg(&requirements).env("TMPDIR", &environment);
    run(&mut pip)?;
    fs::write(&installed, wanted).map_err(|error| explain(&installed, &error))?;
    Ok(interpreter)
}

fn explain(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

/// Runs a command; what it says goes to standard error.
fn run(command: &mut Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    let status = command.stdin(Stdio::null()).stdout(io::stderr()).status();
    match status {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program} failed ({status})")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_arithmetic_in_python_is_right() {
        system::PYTHON.require().expect("the tests need Python");
        let mut tests = Command::new("python3");
        tests.args(["-B", "-m", "unittest", "-v", "test_pairs"]).current_dir(folder());
        let output = tests.output().expect("there is a Python");
        let report = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && report.contains("Ran 4 tests"), "{report}");
    }
}
