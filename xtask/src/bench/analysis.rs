//! `cargo xtask bench analysis`: questions asked of traces, beside HolisticTraceAnalysis.

use std::process::{Command, Stdio};

use super::python;
use crate::python::Environment;
use crate::steps::{cargo, target_directory};

/// Builds the command as it is installed, and runs what measures it. Arguments are passed on.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let build = ["build", "--release", "-p", "profiler-cli", "--features", "parquet"];
    let mut build_command = cargo();
    build_command.args(build).args(["--bin", "mlprof"]);
    succeed(build_command)?;
    let mut command = match arguments.contains(&"--without-hta") {
        true => Command::new("python3"),
        false => {
            let environment = Environment {
                name: "python-hta",
                requirements: python::folder().join("requirements-hta.txt"),
                announcement: "HolisticTraceAnalysis and pandas, 60 MB to download. To go without \
                               them: --without-hta",
            };
            Command::new(environment.interpreter()?)
        }
    };
    command.arg("-B").arg(python::folder().join("analysis.py"));
    command.arg("--mlprof").arg(target_directory().join("release/mlprof")).args(arguments);
    succeed(command)
}

fn succeed(mut command: Command) -> Result<(), String> {
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("bench analysis: {status}")),
        Err(error) => Err(format!("bench analysis: {error}")),
    }
}
