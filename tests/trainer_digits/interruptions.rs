//! Ctrl-C in the middle of a training.
#![cfg(unix)]

use std::time::{Duration, Instant};

use tempfile::tempdir;
use tests::digits::file_names;
use tests::program::Run;
use tests::table::Table;

use crate::program;

#[test]
fn ctrl_c_ends_the_training_with_report_and_checkpoint() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&program(), directory.path());
    let arguments = ["--profiler", "simple", "--epochs", "100000", "--checkpoint-dir", "saved"];
    let mut running = run.args(arguments).start();
    running.wait_until_it_says("epoch 1/");
    running.interrupt();
    let interrupted = Instant::now();
    let finished = running.finish();
    assert!(interrupted.elapsed() < Duration::from_secs(60), "it does not train to the end");
    assert_eq!(finished.status.code(), Some(1), "{finished:#?}");
    assert!(finished.stderr.contains("interrupted"), "{}", finished.stderr);
    let fit = Table::find("FIT", &finished.stdout);
    assert!(fit.row("run_training_batch").calls > 0);
    let saved = file_names(&directory.path().join("saved"));
    let checkpoints = fit.row("save_checkpoint").calls;
    assert_eq!(saved.len() as u64, checkpoints, "{saved:?}");
    assert!(saved.iter().all(|name| name.starts_with("epoch=")), "none half done: {saved:?}");
}
