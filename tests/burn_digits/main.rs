//! The example `burn-digits` as its users meet it: what it prints, the files it leaves, and what it
//! does when something goes wrong.

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

/// A training of one epoch in `directory`.
fn short_run(directory: &Path) -> Run {
    Run::of(&digits(), directory).args(["--epochs", "1"])
}
