//! End-to-end tests of the example `burn-digits`: its output, its files, and its behaviour after
//! failures.

mod advanced;
mod files;
mod findings;
mod interruptions;
mod live;
mod numerics;
mod programs;
mod selection;
mod simple;
mod tensor;

use std::path::{Path, PathBuf};

use tests::program::{Run, build};

fn digits() -> PathBuf {
    build("burn-digits", "burn-digits")
}

/// Returns a training of one epoch in `directory`.
fn short_run(directory: &Path) -> Run {
    Run::of(&digits(), directory).args(["--epochs", "1"])
}
