//! `cargo xtask bench live`: measures the cost of monitoring a training with `mlprof top` and
//! `mlprof record`.

use crate::run::run as run_program;
use crate::steps::{cargo, target_directory};

/// Builds the monitoring command, and runs the trainings with `arguments`.
pub fn run(arguments: &[&str]) -> Result<(), String> {
    let mut build = cargo();
    build.args(["build", "--release", "--package", "mlprof", "--bin", "mlprof"]);
    super::succeed(build)?;
    let mlprof = target_directory().join("release/mlprof");
    let mlprof = mlprof.to_str().ok_or("the target directory's path is not UTF-8")?;
    let program = ["--bin", "tch-live-overhead", "--", "--mlprof", mlprof];
    run_program("tch-digits", &[&program[..], arguments].concat())
}
