//! Tests that hooks change neither the behaviour nor the output of a program.

use std::io::Write;

use super::shop::{Finished, MLPROF, TestProject, arguments};

#[test]
fn places_in_the_source_are_those_of_the_original_and_nothing_of_it_changes() {
    let project = TestProject::open();
    let before = project.run("cargo", &["run", "--release", "--", "panic"]);
    let lock = std::fs::read_to_string(project.path("Cargo.lock")).expect("a lock file");
    let run = project.mlprof("--functions **", "cargo run --release -- panic");
    assert_eq!(run.code, Some(101), "{run:?}");
    assert_eq!(run.stdout, before.stdout, "tables are printed elsewhere");
    assert!(run.stderr.contains("Profile stats for"), "{run:?}");
    let panic = |run: &Finished| {
        let line = run.stderr.lines().find(|line| line.contains("panicked at"));
        // The thread number differs between the two runs, so it is removed.
        line.and_then(|line| Some(line.split_once("panicked at")?.1.to_owned()))
    };
    assert!(panic(&before).expect("a panic").contains("tools/src/lib.rs:12:5"), "{before:?}");
    assert_eq!(panic(&run), panic(&before), "{run:?}");
    assert_eq!(std::fs::read_to_string(project.path("Cargo.lock")).expect("it"), lock);
    // The usual build folder is unchanged, so cargo recompiles nothing.
    let after = project.run("cargo", &["build", "--release"]);
    assert!(!after.stderr.contains("Compiling"), "{after:?}");
}

#[test]
fn cargo_sees_a_changed_source_and_an_unchanged_one() {
    let project = TestProject::open();
    let again = || project.mlprof("--functions app::*,counting::*", "cargo build");
    assert!(again().stderr.contains("Compiling app"));
    assert!(!again().stderr.contains("Compiling"), "nothing has changed");
    let source = project.path("counting/src/lib.rs");
    let mut file = std::fs::OpenOptions::new().append(true).open(&source).expect("the source");
    writeln!(file, "/// New.\npub fn new_one() {{}}").expect("written");
    drop(file);
    let run = again();
    assert!(run.stderr.contains("Compiling counting"), "{run:?}");
    assert!(!run.stderr.contains("Compiling tools"), "{run:?}");
}

#[test]
fn a_wrapper_that_was_set_before_still_compiles() {
    let project = TestProject::open();
    let (script, log) = (project.path("wrapper.sh"), project.path("wrapper.log"));
    let text = format!("#!/bin/sh\necho \"$@\" >> {}\nexec \"$@\"\n", log.display());
    std::fs::write(&script, text).expect("written");
    let mut mode = std::fs::metadata(&script).expect("it").permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut mode, 0o755);
    std::fs::set_permissions(&script, mode).expect("executable");
    let words = arguments("--functions counting::leaf", "cargo run");
    let mut command = project.command(MLPROF, &words);
    let run: Finished = command.env("RUSTC_WRAPPER", &script).output().expect("it runs").into();
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(std::fs::read_to_string(log).expect("a log").contains("--crate-name counting"));
    assert_eq!(project.calls().get("counting::leaf"), Some(&100));
}

#[test]
fn the_program_has_the_environment_that_it_would_have() {
    let project = TestProject::open();
    let before = project.run("cargo", &["run", "--", "environment"]);
    assert!(before.stdout.contains("CARGO_TARGET_DIR=Some("), "{before:?}");
    let run = project.mlprof("--functions counting::leaf --quiet", "cargo run -- environment");
    assert_eq!((run.code, &run.stdout), (Some(0), &before.stdout), "{run:?}");
}
