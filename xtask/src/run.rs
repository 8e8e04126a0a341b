//! `cargo xtask run …`: builds and runs one package, with libtorch if it needs that.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::libtorch::Libtorch;
use crate::steps::{cargo, set_variables, target_directory};

/// Runs `package` optimised. `rest` contains options for cargo and, after `--`, the program's
/// arguments. Returns only on failure; otherwise the process exits with the program's status.
///
/// `cargo run` is not used, because it replaces its own process with the program. The program then
/// could not separate its start from cargo's run time, and its report could not show the loading
/// time of libtorch.
pub fn run(package: &str, rest: &[&str]) -> Result<(), String> {
    let (options, arguments) = split(rest);
    let variables =
        if uses_tch(package)? { Some(Libtorch::of_workspace()?.variables()) } else { None };
    let mut build = cargo();
    build.args(["build", "--release", "--package", package]).args(options);
    build.arg("--target-dir").arg(target_directory());
    if let Some(variables) = &variables {
        set_variables(&mut build, variables);
    }
    let status = build.status().map_err(|error| format!("cannot run cargo: {error}"))?;
    if !status.success() {
        return Err(format!("cannot build {package} ({status})"));
    }
    let program = program(&target_directory(), package, options);
    let mut command = waited_for(&program);
    command.args(arguments);
    if let Some(variables) = &variables {
        set_variables(&mut command, variables);
    }
    Err(format!("cannot run {}: {}", program.display(), replace(command)))
}

/// Splits the arguments into those for cargo and those for the program.
fn split<'a, 'b>(rest: &'a [&'b str]) -> (&'a [&'b str], &'a [&'b str]) {
    match rest.iter().position(|argument| *argument == "--") {
        Some(position) => (&rest[..position], &rest[position + 1..]),
        None => (rest, &[]),
    }
}

/// Returns the program selected by `--bin`, or the one with the package's name.
fn program(target: &Path, package: &str, options: &[&str]) -> PathBuf {
    let named = options.iter().enumerate().find_map(|(position, option)| match *option {
        "--bin" => options.get(position + 1).copied(),
        option => option.strip_prefix("--bin="),
    });
    let name = named.unwrap_or(package);
    target.join("release").join(format!("{name}{}", std::env::consts::EXE_SUFFIX))
}

/// Returns a shell that runs the program and exits with its status. The shell ignores Ctrl-C, which
/// the program handles.
#[cfg(unix)]
fn waited_for(program: &Path) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", r#"trap : INT; "$0" "$@"; exit $?"#]).arg(program);
    shell
}

#[cfg(not(unix))]
fn waited_for(program: &Path) -> Command {
    Command::new(program)
}

/// Returns `true` if cargo lists tch among the package's dependencies.
fn uses_tch(package: &str) -> Result<bool, String> {
    let mut tree = cargo();
    tree.args(["tree", "--package", package, "--prefix", "none", "--format", "{p}"]);
    let output = tree.args(["--edges", "normal,build,dev"]).output();
    let output = output.map_err(|error| format!("cannot run cargo: {error}"))?;
    if output.status.success() {
        return Ok(names_tch(&String::from_utf8_lossy(&output.stdout)));
    }
    let message = String::from_utf8_lossy(&output.stderr);
    Err(message.trim().trim_start_matches("error: ").to_owned())
}

fn names_tch(tree: &str) -> bool {
    tree.lines().any(|package| package.starts_with("torch-sys v"))
}

#[cfg(unix)]
fn replace(mut command: Command) -> std::io::Error {
    use std::os::unix::process::CommandExt;
    command.exec()
}

#[cfg(not(unix))]
fn replace(mut command: Command) -> std::io::Error {
    match command.status() {
        Ok(status) => std::process::exit(status.code().unwrap_or(1)),
        Err(error) => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_go_through_as_they_are() {
        let rest = ["--bin", "by-hand", "--", "--profiler", "--", "a b"];
        let (options, arguments) = split(&rest);
        assert_eq!(options, ["--bin", "by-hand"]);
        assert_eq!(arguments, ["--profiler", "--", "a b"]);
        assert_eq!(split(&rest[..2]).1.len(), 0);
    }

    #[test]
    fn the_program_is_the_packages_or_the_one_that_is_named() {
        let name = |options: &[&str]| {
            let path = program(Path::new("target"), "tch-digits", options);
            path.file_stem().map(|name| name.to_string_lossy().into_owned())
        };
        assert_eq!(name(&[]).as_deref(), Some("tch-digits"));
        assert_eq!(name(&["--bin", "tch-overhead"]).as_deref(), Some("tch-overhead"));
        assert_eq!(name(&["--verbose", "--bin=tch-overhead"]).as_deref(), Some("tch-overhead"));
    }

    #[cfg(unix)]
    #[test]
    fn the_exit_status_is_the_programs() {
        let status = waited_for(Path::new("/bin/sh")).args(["-c", "exit 7"]).status();
        assert_eq!(status.expect("a shell").code(), Some(7));
        // Ctrl-C reaches all processes of a terminal. Here, the program sends it to its shell.
        let script = "kill -INT $PPID; sleep 0.1; exit 7";
        let status = waited_for(Path::new("/bin/sh")).args(["-c", script]).status();
        assert_eq!(status.expect("a shell").code(), Some(7));
    }

    #[test]
    fn tch_is_recognised_among_the_dependencies() {
        assert!(names_tch("tch-digits v0.1.0 (/a)\ntch v0.22.0\ntorch-sys v0.22.0\n"));
        assert!(!names_tch("candle-digits v0.1.0 (/a)\ncandle-core v0.9.1\n"));
        assert_eq!(uses_tch("xtask"), Ok(false));
    }

    #[test]
    fn a_package_that_does_not_exist_is_named() {
        let message = uses_tch("no-such-package").expect_err("there is none");
        assert!(message.contains("no-such-package"), "{message}");
    }
}
