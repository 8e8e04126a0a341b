//! `cargo xtask bench …`: builds and runs one of the benchmarks.

mod analysis;
mod build;
mod digits;
mod fleet;
mod live;
mod python;

use std::process::{Command, Stdio};

use crate::run::run as run_program;
use crate::steps::cargo;

/// Names of all benchmarks: the programs of the package `benches` and separate measurements. The
/// latter cover the overhead on the digits, libtorch's ops, trace queries, monitoring, numerics,
/// and the build time of a plugin.
pub const PROGRAMS: [&str; 15] = [
    "scopes",
    "memory",
    "tensor",
    "allocations",
    "sampler",
    "torture",
    "watched",
    "verdicts",
    "digits",
    "tch",
    "analysis",
    "fleet",
    "live",
    "numerics",
    "build",
];

/// Runs a benchmark with `arguments`.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    if program == "digits" {
        return digits::run(arguments);
    }
    if program == "numerics" {
        // burn takes minutes to build, so it runs only on request, as in `digits`.
        let frameworks: &[&str] = match arguments.contains(&"--only") {
            true => &[],
            false => &["--only", "candle", "--only", "tch"],
        };
        return digits::run(&[frameworks, &["--numerics"], arguments].concat());
    }
    if program == "build" {
        return build::run(arguments);
    }
    if program == "analysis" {
        return analysis::run(arguments);
    }
    if program == "fleet" {
        return fleet::run(arguments);
    }
    if program == "live" {
        return live::run(arguments);
    }
    if program == "tch" {
        let build = ["--features", "kineto", "--bin", "tch-ops-overhead", "--"];
        return run_program("tch-digits", &[&build[..], arguments].concat());
    }
    let mut command = cargo();
    command.args(build_arguments(program, arguments.contains(&"--lto")));
    command.args(arguments.iter().filter(|argument| **argument != "--lto"));
    succeed(command)
}

/// Runs a command and returns an error unless it succeeds.
fn succeed(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

/// Returns the build arguments. As in users' builds, link-time optimisation is off unless
/// requested.
fn build_arguments(program: &str, lto: bool) -> Vec<&str> {
    let mut build = vec!["run", "--package", "benches", "--bin", program];
    if lto {
        build.extend([
            "--config",
            "profile.lto.inherits='release'",
            "--config",
            "profile.lto.lto='thin'",
            "--config",
            "profile.lto.codegen-units=1",
            "--profile",
            "lto",
        ]);
    } else {
        build.push("--release");
    }
    build.push("--");
    build
}
