//! Ctrl-C in the middle of a training.
#![cfg(unix)]

use std::os::unix::process::ExitStatusExt;
use std::time::{Duration, Instant};

use tempfile::tempdir;
use tests::digits::file_names;
use tests::program::Run;
use tests::table::Table;

use crate::program;

#[test]
fn ctrl_c_ends_the_program_as_without_a_profiler_but_with_a_report() {
    for profiler in ["none", "simple"] {
        let directory = tempdir().expect("a folder");
        let run = Run::of(&program(), directory.path());
        let arguments = ["--profiler", profiler, "--epochs", "100000", "--checkpoint-dir", "saved"];
        let mut running = run.args(arguments).start();
        running.wait_until_it_says("epoch 1/");
        running.interrupt();
        let interrupted = Instant::now();
        let finished = running.finish();
        assert!(interrupted.elapsed() < Duration::from_secs(60), "it does not train to the end");
        assert_eq!(finished.status.signal(), Some(libc::SIGINT), "{finished:#?}");
        assert!(!finished.stdout.contains("accuracy"), "it does not go on: {finished:#?}");
        let saved = file_names(&directory.path().join("saved"));
        assert!(!saved.is_empty(), "what was saved before is there");
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
