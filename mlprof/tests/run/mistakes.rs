//! Tests the messages about user mistakes and failed runs.

use super::shop::{Finished, MLPROF, TestProject, arguments};

#[test]
fn a_pattern_that_matches_nothing_is_told_with_what_is_like_it() {
    let project = TestProject::open();
    let run = project.mlprof("--functions counting::fibonaci,countin::leaf", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert!(run.stderr.contains("`counting::fibonaci` matches no function"), "{run:?}");
    assert!(run.stderr.contains("similar: counting::fibonacci"), "{run:?}");
    assert!(run.stderr.contains("did you mean counting?"), "{run:?}");
}

#[test]
fn invalid_arguments_fail_before_the_build() {
    let project = TestProject::open();
    for (options, said) in [
        ("", "nothing to measure"),
        ("--ops tensorflow", "burn-autodiff"),
        ("--functions ::", "pattern"),
        ("--functions app::* --schedule active=0", "active"),
        ("--ops ./no-such.toml", "no-such.toml"),
    ] {
        let run = project.mlprof(options, "cargo run");
        assert_eq!(run.code, Some(2), "{options}: {run:?}");
        assert!(run.stderr.contains(said), "{options}: {run:?}");
        assert!(!project.path("target").exists(), "{options}");
    }
}

#[test]
fn programs_with_hooks_are_not_installed() {
    let project = TestProject::open();
    let run = project.mlprof("--functions app::*", "cargo install --path app --root installed");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("cannot measure `cargo install`"), "{run:?}");
    assert!(!project.path("installed").exists() && !project.path("target").exists());
}

#[test]
fn a_program_that_fails_fails_and_is_reported_all_the_same() {
    let project = TestProject::open();
    let run = project.mlprof("--functions counting::leaf", "cargo run -- fail");
    assert_eq!(run.code, Some(7), "{run:?}");
    assert_eq!(project.calls().get("counting::leaf"), Some(&100));

    let source = project.path("counting/src/lib.rs");
    let text = std::fs::read_to_string(&source).expect("the source");
    std::fs::write(&source, text.replace("n ^ 3", "n ^ \"3\"")).expect("written");
    let run = project.mlprof("--functions counting::leaf", "cargo run");
    assert_eq!(run.code, Some(101), "{run:?}");
    // The compiler error refers to the user's own file.
    assert!(run.stderr.contains("--> counting/src/lib.rs:"), "{run:?}");
    assert!(!run.stderr.contains("overlay") && !run.stderr.contains("__mlprof"), "{run:?}");
}

#[test]
fn folders_that_cannot_be_written_are_named() {
    let project = TestProject::open();
    std::fs::write(project.path("file"), "").expect("written");
    let words = arguments("--functions counting::leaf", "cargo run");
    let mut command = project.command(MLPROF, &words);
    let run: Finished =
        command.env("CARGO_TARGET_DIR", project.path("file")).output().expect("it runs").into();
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(
        run.stderr.contains("file/mlprof") && run.stderr.contains("CARGO_TARGET_DIR"),
        "{run:?}"
    );
    let run = project.mlprof("--functions counting::leaf --output file/x", "cargo run");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("file/x") && run.stderr.contains("--output"), "{run:?}");
    let run = project.mlprof("--functions counting::leaf", "no-such-command-of-mine");
    assert_eq!(run.code, Some(2), "{run:?}");
    assert!(run.stderr.contains("no-such-command-of-mine"), "{run:?}");
}

#[test]
fn after_ctrl_c_there_is_a_report() {
    let project = TestProject::open();
    let built = project.mlprof("--functions counting::leaf", "cargo build");
    assert_eq!(built.code, Some(0), "{built:?}");
    let ended = project.end_while_waiting("--functions counting::leaf", "-INT", || {});
    assert_ne!(ended.code, Some(0));
    assert_eq!(project.calls().get("counting::leaf"), Some(&100), "{ended:?}");
}
