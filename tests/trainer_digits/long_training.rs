//! A training that lasts long enough to be looked into, on any machine.

use std::path::Path;
use std::sync::LazyLock;

use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::{Run, build};

/// So many epochs it has.
pub const EPOCHS: u32 = 40;

/// It runs until its epochs are over.
pub fn prepared(directory: &Path, profiler: &str) -> Run {
    let run = Run::of(&crate::program(), directory);
    // What looks in, before the training begins, which does not wait for it.
    build("mlprof", "mlprof");
    let epochs = EPOCHS.to_string();
    run.args(["--profiler", profiler, "--epochs", &epochs])
}

/// What it learns when nobody looks into it: trained once for all tests.
pub fn unwatched_accuracy() -> f64 {
    static ACCURACY: LazyLock<f64> = LazyLock::new(|| {
        let directory = tempdir().expect("a folder");
        test_accuracy(&prepared(directory.path(), "none").succeed().stdout)
    });
    *ACCURACY
}
