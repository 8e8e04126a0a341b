//! `mlprof sql`, run as people run it: what it hands on to the program that answers.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use super::text;

fn mlprof(program: &Path, on_path: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program);
    command.args(arguments).env("PATH", on_path).stdin(Stdio::null());
    command.output().expect("the command was built")
}

/// Copies a program by another process: where this one writes it, a process that another test starts meanwhile has it open for
/// writing, too, and then the system runs no such program.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args([from, to]).status().expect("cp runs");
    assert!(status.success(), "{}", to.display());
}

/// Says where it is and what it was given, and ends with 7.
fn write_program(folder: &Path) {
    let (text, file) = (folder.join("text"), folder.join("mlprof-sql"));
    fs::write(&text, "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\"\nexit 7\n").expect("a file");
    copy(&text, &file);
    fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn what_is_asked_goes_to_the_program_that_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, other) = (folder.path().join("own"), folder.path().join("other"));
    for folder in [&own, &other] {
        fs::create_dir(folder).expect("a folder");
    }
    // By itself, so that nothing lies beside it.
    let program = own.join("mlprof");
    copy(Path::new(env!("CARGO_BIN_EXE_mlprof")), &program);
    let arguments = ["sql", "traces", "select 1", "--format", "csv", "--help"];
    let missing = mlprof(&program, &other, &arguments);
    assert_eq!(missing.status.code(), Some(2));
    let said = text(&missing.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("`cargo install mlprof-sql` builds it"), "{said}");
    // On the path, and rather beside it.
    for folder in [&other, &own] {
        write_program(folder);
        let output = mlprof(&program, &other, &arguments);
        assert_eq!(output.status.code(), Some(7), "{output:?}");
        let given = text(&output.stdout);
        let given: Vec<&str> = given.lines().collect();
        assert_eq!(Path::new(given[0]), folder.join("mlprof-sql"));
        assert_eq!(given[1..], arguments[1..]);
    }
}
