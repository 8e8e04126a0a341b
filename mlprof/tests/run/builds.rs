//! Helpers for the program in `tests/builds`, which the tests build in different ways.

use std::process::Command;

use super::shop::{Finished, MLPROF, TestProject, arguments};

/// A copy of the program in `tests/builds`.
pub struct Builds(pub TestProject);

impl Builds {
    pub fn new() -> Self {
        Self(TestProject::copy_of("builds"))
    }

    /// Returns a command in the program's folder, without environment variables that configure
    /// cargo.
    pub fn command(&self, program: &str, arguments: &[&str]) -> Command {
        let mut command = self.0.command(program, arguments);
        for name in ["CARGO_TARGET_DIR", "CARGO_BUILD_BUILD_DIR", "RUSTC", "RUSTDOC"] {
            command.env_remove(name);
        }
        command
    }

    pub fn run(&self, program: &str, arguments: &[&str]) -> Finished {
        self.command(program, arguments).output().expect("it runs").into()
    }

    /// Returns an `mlprof run` command for all functions of the program.
    pub fn mlprof_command(&self, command: &str) -> Command {
        self.command(MLPROF, &arguments("--quiet --functions app::**", command))
    }

    pub fn mlprof(&self, command: &str) -> Finished {
        self.mlprof_command(command).output().expect("it runs").into()
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.0.path(path);
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        std::fs::write(path, text).expect("written");
    }

    pub fn write_script(&self, path: &str, text: &str) {
        self.write(path, &format!("#!/bin/sh\n{text}\n"));
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(self.0.path(path), mode).expect("executable");
    }

    /// Returns the number of calls of a function since the last check.
    pub fn calls(&self, function: &str) -> u64 {
        let calls = self.0.calls().get(function).copied().unwrap_or_default();
        self.0.forget_results();
        calls
    }

    /// Returns `true` if the program is linked with the runtime library or contains hook symbols.
    pub fn has_hooks(&self, program: &str) -> bool {
        let bytes = std::fs::read(self.0.path(program)).expect("a program");
        bytes.windows(b"mlprof_".len()).any(|part| part == b"mlprof_")
    }
}

/// Returns the first line that begins with `begin`, and panics if there is none.
pub fn line<'a>(run: &'a Finished, begin: &str) -> &'a str {
    let mut lines = run.stderr.lines().filter(|line| line.starts_with(begin));
    lines.next().unwrap_or_else(|| panic!("{begin}: {run:?}"))
}
