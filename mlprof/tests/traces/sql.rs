//! Tests that `mlprof sql` passes its arguments to the program `mlprof-sql`.

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

/// Copies a program with a separate `cp` process. If this process wrote the file, a child started
/// by another test could inherit the open descriptor. The system then refuses to execute the
/// program.
fn copy(from: &Path, to: &Path) {
    let status = Command::new("cp").args([from, to]).status().expect("cp runs");
    assert!(status.success(), "{}", to.display());
}

/// Writes a program that prints its path and its arguments, and ends with exit code 7.
fn write_program(folder: &Path) {
    let (text, file) = (folder.join("text"), folder.join("mlprof-sql"));
    fs::write(&text, "#!/bin/sh\nprintf '%s\\n' \"$0\" \"$@\"\nexit 7\n").expect("a file");
    copy(&text, &file);
    fs::set_permissions(&file, Permissions::from_mode(0o755)).expect("it is ours");
}

#[test]
fn queries_are_passed_to_mlprof_sql() {
    let folder = tempfile::tempdir().expect("a folder");
    let (own, other) = (folder.path().join("own"), folder.path().join("other"));
    for folder in [&own, &other] {
        fs::create_dir(folder).expect("a folder");
    }
    // The copy is alone in its folder, so no `mlprof-sql` lies beside it.
    let program = own.join("mlprof");
    copy(Path::new(env!("CARGO_BIN_EXE_mlprof")), &program);
    let arguments = ["sql", "traces", "select 1", "--format", "csv", "--help"];
    let missing = mlprof(&program, &other, &arguments);
    assert_eq!(missing.status.code(), Some(2));
    let said = text(&missing.stderr);
    assert_eq!(said.lines().count(), 1, "{said}");
    assert!(said.contains("install it with `cargo install mlprof-sql`"), "{said}");
    // `mlprof-sql` is found on the `PATH`, but one beside `mlprof` is preferred.
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
