//! Tests findings of the unmodified example.

use tempfile::tempdir;
use tests::findings::{assert_healthy, told};
use tests::program::{Run, build};

use crate::{LOOP, PACKAGE, program};

#[test]
fn a_healthy_training_gives_nothing_above_a_hint() {
    let directory = tempdir().expect("a folder");
    assert_healthy(&program(), directory.path(), &[], &[]);
    // The schedule has enough steps for all rules.
    let schedule = "wait=2,warmup=1,active=30";
    assert_healthy(&program(), directory.path(), &["--input-shapes", "--schedule", schedule], &[]);
}

/// Checks a program without report files, for which the console must print no findings above a
/// hint.
#[test]
fn neither_does_a_healthy_loop_of_ones_own() {
    let directory = tempdir().expect("a folder");
    let printed = Run::of(&build(PACKAGE, LOOP), directory.path()).succeed().stdout;
    assert!(printed.contains("FIT Profiler Report"), "{printed}");
    assert_eq!(told(&printed), Vec::<&str>::new());
}
