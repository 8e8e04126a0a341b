//! Ctrl-C in the middle of a training.
#![cfg(unix)]

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tests::program::Run;
use tests::table::Table;

use crate::digits;

#[test]
fn ctrl_c_ends_the_program_as_without_a_profiler_but_with_a_report() {
    for profiler in ["none", "simple"] {
        let directory = tempdir().expect("a folder");
        let run = Run::of(&digits(), directory.path());
        let mut running = run.args(["--profiler", profiler, "--epochs", "100000"]).start();
        running.wait_until_it_says("epoch 1/");
        running.interrupt();
        let interrupted = Instant::now();
        let finished = running.finish();
        assert!(interrupted.elapsed() < Duration::from_secs(60), "it does not train to the end");
        assert_eq!(finished.status.signal(), Some(libc::SIGINT), "{finished:#?}");
        assert!(!finished.stdout.contains("accuracy"), "it does not go on: {finished:#?}");
        if profiler == "none" {
            assert!(!finished.stdout.contains("Report"), "{finished:#?}");
            assert!(!finished.stderr.contains("mlprof"), "{finished:#?}");
        } else {
            let fit = Table::find("FIT", &finished.stdout);
            assert!(fit.row("run_training_batch").calls > 0);
            assert!(finished.stderr.contains("the report comes first"), "{}", finished.stderr);
        }
    }
}
