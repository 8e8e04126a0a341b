//! The example `burn-digits` as its users meet it: what it prints, the files it leaves, and what it
//! does when something goes wrong.

mod advanced;
mod files;
mod interruptions;
mod programs;
mod selection;
mod simple;

use std::path::{Path, PathBuf};

use tests::program::{Run, build};

fn digits() -> PathBuf {
    build("burn-digits", "burn-digits")
}

/// A training of one epoch in `directory`.
fn short_run(directory: &Path) -> Run {
    Run::of(&digits(), directory).args(["--epochs", "1"])
}

/// The percentage in the last line, `test accuracy: 97.2 %`.
fn test_accuracy(stdout: &str) -> f64 {
    let last = stdout.lines().last().unwrap_or_default();
    let number = last.strip_prefix("test accuracy: ").and_then(|rest| rest.strip_suffix(" %"));
    let number = number.unwrap_or_else(|| panic!("the last line is {last:?}"));
    let (_, decimals) = number.split_once('.').expect("one decimal");
    assert_eq!(decimals.len(), 1, "{last:?}");
    number.parse().unwrap_or_else(|_| panic!("no number in {last:?}"))
}

/// The names of the files in a directory, sorted.
fn file_names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a readable directory");
    let mut names: Vec<_> = entries
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}
