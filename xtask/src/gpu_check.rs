//! `cargo xtask gpu-check`: checks mlprof's measurements on an NVIDIA GPU.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use crate::libtorch::workspace;
use crate::python::Environment;
use crate::steps::{cargo, target_directory};

/// Builds and runs the program, and returns its exit status: 1 if a check failed, 2 without a GPU.
pub fn run(arguments: &[&str]) -> ExitCode {
    match run_checks(arguments) {
        Ok(status) => ExitCode::from(status),
        Err(message) => {
            eprintln!("\nerror: {message}");
            ExitCode::FAILURE
        }
    }
}

fn run_checks(arguments: &[&str]) -> Result<u8, String> {
    let Split { build, program: rest } = split(arguments);
    let mut command = cargo();
    command.args(["build", "--release", "--package", "gpu-check"]).args(build);
    command.arg("--target-dir").arg(target_directory());
    let status = command.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!(
            "cannot build gpu-check ({status}); burn's CUDA backend downloads an LLVM, and \
             --without-burn omits it"
        ));
    }
    let program = target_directory().join("release");
    let program = program.join(format!("gpu-check{}", std::env::consts::EXE_SUFFIX));
    let asks_only = rest.iter().any(|argument| ["--help", "-h", "--probe"].contains(argument));
    let mut checks = Command::new(&program);
    if !asks_only && let Some(reader) = trace_reader(&program, &rest)? {
        checks.arg("--trace-reader").arg(reader);
    }
    let status = checks.args(&rest).status().map_err(|error| cannot_run(&program, &error))?;
    // A process that was ended by a signal has no exit code.
    Ok(status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(1))
}

/// Arguments for cargo and arguments for the program.
struct Split<'arguments> {
    build: Vec<&'static str>,
    program: Vec<&'arguments str>,
}

/// Separates the arguments. Options that select what is built belong to cargo.
fn split<'arguments>(arguments: &[&'arguments str]) -> Split<'arguments> {
    let mut split = Split { build: Vec::new(), program: Vec::new() };
    for argument in arguments {
        match *argument {
            "--without-burn" => split.build.push("--no-default-features"),
            "--candle" => split.build.extend(["--features", "candle"]),
            other => split.program.push(other),
        }
    }
    split
}

/// Returns a Python with HolisticTraceAnalysis if a GPU is available for it. Without one, the check
/// is reported as not run.
fn trace_reader(program: &Path, arguments: &[&str]) -> Result<Option<PathBuf>, String> {
    if arguments.iter().any(|argument| argument.starts_with("--trace-reader")) {
        return Ok(None);
    }
    let mut probe = Command::new(program);
    probe.arg("--probe").stderr(Stdio::null());
    let status = probe.status().map_err(|error| cannot_run(program, &error))?;
    if !status.success() {
        return Ok(None);
    }
    let environment = Environment {
        name: "python-gpu-check",
        requirements: workspace().join("gpu-check/python/requirements.txt"),
        announcement: "HolisticTraceAnalysis without Jupyter",
    };
    let made = environment.interpreter();
    if let Err(message) = &made {
        eprintln!("warning: cannot install HolisticTraceAnalysis: {message}");
    }
    Ok(made.ok())
}

fn cannot_run(program: &Path, error: &io::Error) -> String {
    format!("cannot run {}: {error}", program.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_split_between_build_and_program() {
        let Split { build, program } =
            split(&["--without-burn", "--only", "many", "--candle", "--help"]);
        assert_eq!(build, ["--no-default-features", "--features", "candle"]);
        assert_eq!(program, ["--only", "many", "--help"]);
    }
}
