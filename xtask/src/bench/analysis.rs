//! `cargo xtask bench analysis`: compares trace queries with HolisticTraceAnalysis and Perfetto's
//! trace_processor.

use std::process::Command;

use super::python;
use crate::libtorch::{cache, workspace};
use crate::python::Environment;
use crate::steps::{cargo, target_directory};
use crate::trace_processor;

/// Builds the command as for installation, and runs the measuring program with `arguments`.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let build = ["build", "--release", "-p", "mlprof", "--features", "parquet"];
    let mut build_command = cargo();
    build_command.args(build).args(["--bin", "mlprof"]);
    super::succeed(build_command)?;
    let mut command = match arguments.contains(&"--without-hta") {
        true => Command::new("python3"),
        false => {
            let environment = Environment {
                name: "python-hta",
                requirements: python::folder().join("requirements-hta.txt"),
                announcement: "HolisticTraceAnalysis and pandas, 60 MB to download; --without-hta \
                               omits them",
            };
            Command::new(environment.interpreter()?)
        }
    };
    command.arg("-B").arg(python::folder().join("analysis.py"));
    let (without, named) = ("--without-trace-processor", "--trace-processor");
    let brings_one = |argument: &&str| *argument == without || argument.starts_with(named);
    if !arguments.iter().any(brings_one) {
        let script = workspace().join("tests/traces/trace_processor.mjs");
        let assets = trace_processor::install(&cache()?)
            .map_err(|message| format!("{message}\nhelp: {without} omits trace_processor"))?;
        let words = ["node".as_ref(), script.as_os_str(), assets.as_os_str()];
        let quoted = words.map(|word| format!("'{}'", word.to_string_lossy()));
        command.arg(named).arg(quoted.join(" "));
    }
    let arguments = arguments.iter().filter(|argument| **argument != without);
    command.arg("--mlprof").arg(target_directory().join("release/mlprof")).args(arguments);
    super::succeed(command)
}
