//! Tests Ctrl-C during a training.

use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::time::{Duration, Instant};

use tempfile::tempdir;

use crate::program::Run;
use crate::table::Table;

/// Interrupts the program at `path` after its first epoch, once without a profiler and once with
/// one. The signal must end it both times, and the profiler's report must be printed first.
/// `arguments` are additional arguments. `check` receives the working directory of the run.
pub fn ctrl_c_ends_it_after_its_report(path: &Path, arguments: &[&str], check: impl Fn(&Path)) {
    for profiler in ["none", "simple"] {
        let directory = tempdir().expect("a folder");
        let run = Run::of(path, directory.path());
        let run = run.args(["--profiler", profiler, "--epochs", "100000"]).args(arguments);
        let mut running = run.start();
        // The work of the first epoch, such as a checkpoint, is complete at this point.
        running.wait_until_it_says("epoch 2/");
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
            assert!(
                finished.stderr.contains("the process ends after the report"),
                "{}",
                finished.stderr
            );
        }
        check(directory.path());
    }
}
