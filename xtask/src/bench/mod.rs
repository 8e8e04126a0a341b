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

/// All that there are: the programs of the package `benches`, how often comparisons are wrong among
/// them, the overhead on the digits, what it costs to record libtorch's ops, what questions to
/// traces cost, and to those of a fleet, what it costs to be watched, and to look at numbers, and
/// what a plugin adds to the build of its framework.
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

/// Runs one with the arguments that are meant for it.
pub fn run(program: &str, arguments: &[&str]) -> Result<(), String> {
    if program == "digits" {
        return digits::run(arguments);
    }
    if program == "numerics" {
        // burn takes minutes to build: only where asked for, as in `digits`.
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

/// Runs a program that needs no input.
fn succeed(mut command: Command) -> Result<(), String> {
    let program = command.get_program().to_string_lossy().into_owned();
    match command.stdin(Stdio::null()).status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{program}: {status}")),
        Err(error) => Err(format!("cannot run {program}: {error}")),
    }
}

/// As users build, that is without link-time optimisation, unless asked for.
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
