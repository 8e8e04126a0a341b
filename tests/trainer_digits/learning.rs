//! Compares the training results with and without a profiler.

use std::path::Path;

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::program::Run;

use crate::program;

#[test]
fn the_network_learns_the_digits() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&program(), directory.path()).args(["--profiler", "simple"]).succeed();
    let accuracy = test_accuracy(&run.stdout);
    assert!(accuracy > 95.0 && accuracy <= 100.0, "{accuracy}");
    let fit = run.stdout.find("FIT Profiler Report").expect("a report of fit");
    let test = run.stdout.find("TEST Profiler Report").expect("a report of the test");
    assert!(fit < test, "in the order of the stages");
    assert!(run.stdout.contains("Waiting for data: "), "{}", run.stdout);
    assert!(!run.stderr.contains("panicked"), "{}", run.stderr);
    // Without a terminal, there is one line per epoch.
    assert_eq!(run.stderr.matches("step/s").count(), 15 + 1, "{}", run.stderr);
    assert!(!run.stderr.contains('\u{1b}'), "{}", run.stderr);
}

fn loss_curve(directory: &Path, profiler: &[&str]) -> String {
    let run = Run::of(&program(), directory);
    let run = run.args(["--epochs", "3", "--loss-curve", "losses"]).args(profiler).succeed();
    test_accuracy(&run.stdout);
    std::fs::read_to_string(directory.join("losses")).expect("a loss curve")
}

#[test]
fn losses_are_the_same_to_the_last_bit_with_and_without_a_profiler() {
    let directory = tempdir().expect("a folder");
    let without = loss_curve(directory.path(), &["--profiler", "none"]);
    let losses: Vec<f64> = without.lines().map(|line| line.parse().expect("a number")).collect();
    assert_eq!(losses.len(), 3 * 1257_usize.div_ceil(32), "every step");
    let mean = |losses: &[f64]| losses.iter().sum::<f64>() / losses.len() as f64;
    assert!(mean(&losses[80..]) < mean(&losses[..40]) / 2.0, "it learns: {losses:?}");
    for profiler in [
        &["--profiler", "simple"][..],
        &["--profiler", "simple", "--detailed"],
        &["--profiler", "advanced"],
    ] {
        assert!(without == loss_curve(directory.path(), profiler), "{profiler:?} changes it");
    }
    let other = loss_curve(directory.path(), &["--profiler", "none", "--seed", "7"]);
    assert!(without != other, "the seed counts");
}

#[test]
fn checkpoints_are_whole_and_one_per_epoch() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&program(), directory.path());
    run.args(["--epochs", "2", "--checkpoint-dir", "saved"]).succeed();
    let names = file_names(&directory.path().join("saved"));
    assert_eq!(names.len(), 2, "{names:?}");
    assert!(names[0].starts_with("epoch=0-step=40.") && names[1].starts_with("epoch=1-step=80."));
}
