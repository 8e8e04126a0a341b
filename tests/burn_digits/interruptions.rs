//! Ctrl-C: once to finish with a report, twice to leave.
#![cfg(unix)]

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tests::program::Run;
use tests::table::Table;

use crate::digits;

/// What a training says when its first epoch is over: signals are watched by then.
const IT_TRAINS: &str = "epoch 1/";

#[test]
fn once_ends_the_training_with_a_report() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&digits(), directory.path());
    let mut running = run.args(["--profiler", "simple", "--epochs", "100000"]).start();
    running.wait_until_it_says(IT_TRAINS);
    running.interrupt();
    let interrupted = Instant::now();
    let finished = running.finish();
    assert!(interrupted.elapsed() < Duration::from_secs(60), "it does not train to the end");
    let fit = Table::find("FIT", &finished.stdout);
    assert!(fit.row("run_training_batch").calls > 0);
    assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
}

/// With all digits in one batch the first Ctrl-C has to wait, and those after it do not.
#[test]
fn twice_leaves_at_once() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&digits(), directory.path());
    let arguments = ["--profiler", "simple", "--epochs", "100000", "--batch-size", "2000"];
    let mut running = run.args(arguments).start();
    running.wait_until_it_says(IT_TRAINS);
    while running.is_alive() {
        running.interrupt();
        // Two that come at the same moment may be one to the system.
        std::thread::sleep(Duration::from_millis(3));
    }
    let finished = running.finish();
    let left = finished.status.signal() == Some(libc::SIGINT)
        || finished.status.code() == Some(128 + libc::SIGINT);
    assert!(left, "{finished:#?}");
    assert!(!finished.stdout.contains("Profiler Report"), "{}", finished.stdout);
}
