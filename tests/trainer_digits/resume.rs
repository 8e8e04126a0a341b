//! Tests trainings that resume after being killed, stop early, or keep the best checkpoints.

use std::path::Path;

use mlprof_train::{Checkpoint, SavedState};
use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::program::Run;

use crate::program;

fn run(directory: &Path, arguments: &[&str]) -> Run {
    Run::of(&program(), directory).args(["--profiler", "none"]).args(arguments)
}

fn weights(path: &Path) -> SavedState {
    let checkpoint = Checkpoint::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    checkpoint.weights().expect("weights").clone()
}

fn last_losses(directory: &Path, epochs: usize) -> Vec<String> {
    let losses = std::fs::read_to_string(directory.join("losses")).expect("a loss curve");
    let losses: Vec<String> = losses.lines().map(str::to_owned).collect();
    losses[losses.len() - epochs * 40..].to_vec()
}

#[test]
fn a_training_that_is_killed_and_resumed_has_the_weights_of_one_that_was_not() {
    let whole = tempdir().expect("a folder");
    let common = ["--epochs", "4", "--checkpoint-dir", "saved", "--loss-curve", "losses"];
    let finished = run(whole.path(), &common).succeed();
    let killed = tempdir().expect("a folder");
    let without_end = ["--epochs", "100000", "--checkpoint-dir", "saved"];
    let mut running = run(killed.path(), &without_end).start();
    running.wait_until_it_says("epoch 3/");
    running.kill();
    assert!(!running.finish().status.success());
    // Of the written checkpoints, the second epoch's is complete.
    let from = ["--resume", "saved/epoch=1-step=80.safetensors"];
    let resumed = tempdir().expect("a folder");
    std::fs::rename(killed.path().join("saved"), resumed.path().join("saved")).expect("moved");
    let again = run(resumed.path(), &[&common[..], &from].concat()).succeed();
    let last = Path::new("saved/epoch=3-step=160.safetensors");
    let names = file_names(&resumed.path().join("saved"));
    let last_of_resumed = match names.iter().any(|name| name == "epoch=3-step=160-v1.safetensors") {
        true => Path::new("saved/epoch=3-step=160-v1.safetensors"),
        false => last,
    };
    assert!(weights(&whole.path().join(last)) == weights(&resumed.path().join(last_of_resumed)));
    assert_eq!(last_losses(whole.path(), 2), last_losses(resumed.path(), 2));
    assert_eq!(test_accuracy(&finished.stdout), test_accuracy(&again.stdout));
}

#[test]
fn a_checkpoint_of_something_else_is_refused_in_one_line() {
    let directory = tempdir().expect("a folder");
    std::fs::write(directory.path().join("other"), "no checkpoint").expect("written");
    let finished = run(directory.path(), &["--resume", "other"]).finish();
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    assert!(finished.stderr.contains("cannot resume from other: it is damaged"), "{finished:#?}");
    assert_eq!(finished.stderr.trim_end().lines().count(), 1, "{finished:#?}");
}

#[test]
fn the_best_checkpoints_and_the_last_are_kept() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "5", "--checkpoint-dir", "saved", "--save-top-k", "2"];
    run(directory.path(), &arguments).succeed();
    let saved = directory.path().join("saved");
    let names = file_names(&saved);
    assert_eq!((names.len(), names[2].as_str()), (3, "last.safetensors"), "{names:?}");
    let losses: Vec<f64> = names[..2].iter().map(|name| loss(&saved.join(name))).collect();
    let all = tempdir().expect("a folder");
    run(all.path(), &arguments[..4]).succeed();
    let saved = all.path().join("saved");
    let mut of_all: Vec<f64> = file_names(&saved).iter().map(|it| loss(&saved.join(it))).collect();
    of_all.sort_by(f64::total_cmp);
    let best = losses.iter().all(|loss| of_all[..2].contains(loss));
    assert!(best && of_all.len() == 5, "{losses:?} of {of_all:?}");
}

/// Returns the validation loss at the time when a checkpoint was saved.
fn loss(path: &Path) -> f64 {
    let checkpoint = Checkpoint::read(path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
    checkpoint.section("metrics").expect("metrics").get("val_loss").expect("a number")
}

#[test]
fn a_training_that_no_longer_gets_better_is_stopped() {
    let directory = tempdir().expect("a folder");
    let finished = run(directory.path(), &["--epochs", "1000", "--patience", "1"]).succeed();
    let reason = "stopped early: val_loss did not improve on ";
    assert!(finished.stderr.contains(reason), "{}", finished.stderr);
    assert!(test_accuracy(&finished.stdout) > 90.0);
}
