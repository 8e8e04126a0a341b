//! Tests the option `--profiler`.

use tempfile::tempdir;
use tests::digits::test_accuracy;

use crate::short_run;

#[test]
fn none_reports_nothing() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "none"]).succeed();
    assert!(!run.stdout.contains("Profiler Report"), "{}", run.stdout);
    test_accuracy(&run.stdout);
}

#[test]
fn names_are_taken_in_any_case() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "SIMPLE"]).succeed();
    assert!(run.stdout.contains("FIT Profiler Report"), "{}", run.stdout);
}

#[test]
fn a_typo_is_refused_with_the_choices_before_anything_runs() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).args(["--profiler", "smiple"]).finish();
    assert_eq!(run.status.code(), Some(2), "{run:#?}");
    for expected in ["smiple", "simple", "advanced", "tensor", "none"] {
        assert!(run.stderr.contains(expected), "no {expected:?} in:\n{}", run.stderr);
    }
    assert!(!run.stdout.contains("test accuracy"));
}
