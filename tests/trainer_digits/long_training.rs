//! A training that is long enough for monitoring on any machine.

use std::path::Path;
use std::sync::LazyLock;

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::{Run, build};

/// Number of epochs.
pub const EPOCHS: u32 = 40;

/// Prepares a training that runs until its epochs are complete.
pub fn prepared(directory: &Path, profiler: &str) -> Run {
    let run = Run::of(&crate::program(), directory);
    // The monitoring command is built before the training starts, because the training does not
    // wait for it.
    build("mlprof", "mlprof");
    let epochs = EPOCHS.to_string();
    run.args(["--profiler", profiler, "--epochs", &epochs])
}

/// Returns the accuracy without monitoring, from one training for all tests.
pub fn unwatched_accuracy() -> f64 {
    static ACCURACY: LazyLock<f64> = LazyLock::new(|| {
        let directory = tempdir().expect("a folder");
        test_accuracy(&prepared(directory.path(), "none").succeed().stdout)
    });
    *ACCURACY
}
