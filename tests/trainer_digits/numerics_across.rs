//! The same network in candle and in tch: from the same weights they compute the same, and where one is changed that is found.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::tempdir;
use tests::program::{Run, build};

use crate::program;

/// Trains for an epoch from these weights, every step of which is recorded.
fn trained(program: &Path, directory: &Path, weights: &Path, arguments: &[&str]) -> PathBuf {
    Run::of(program, directory)
        .args(["--profiler", "numerics", "--every", "1", "--epochs", "1", "--dirpath", "D"])
        .args([OsStr::new("--weights"), weights.as_os_str()])
        .args(arguments)
        .succeed();
    directory.join("D/fit.numerics.jsonl")
}

fn compared(reference: &Path, other: &Path) -> (Option<i32>, String) {
    let mut command = Command::new(build("profiler-cli", "mlprof"));
    command.arg("compare-numerics").arg(reference).arg(other);
    // Rounding adds up from step to step.
    let output = command.args(["--tolerance", "0.02"]).output().expect("it was built");
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test]
fn candle_and_tch_agree_down_to_rounding_until_a_kernel_is_changed() {
    let directory = tempdir().expect("a folder");
    let candle = build("candle-digits", "candle-digits");
    let first = ["--epochs", "1", "--checkpoint-dir", "saved"];
    Run::of(&candle, directory.path()).args(first).succeed();
    let weights = directory.path().join("saved/epoch=0-step=40.safetensors");
    let folders = [(); 3].map(|()| tempdir().expect("a folder"));
    let [reference, same, flipped] = folders.each_ref().map(|folder| folder.path());
    let reference = trained(&candle, reference, &weights, &[]);
    let same = trained(&program(), same, &weights, &[]);
    let (status, said) = compared(&reference, &same);
    assert_eq!(status, Some(0), "{said}");
    // Batch, outputs, loss, gradients, parameters and updates: 31 tensors of each of 40 steps.
    assert!(
        said.starts_with("1,240 tensors of 40 steps were compared. No difference.\n"),
        "{said}"
    );
    assert!(said.contains("the batches are the same in all 40 steps.\n"), "{said}");
    assert!(said.contains("\nReference: candle-digits; candle "), "{said}");
    assert!(said.contains("\nOther: tch-digits; tch "), "{said}");
    let flipped = trained(&program(), flipped, &weights, &["--plant", "flipped"]);
    let (status, said) = compared(&reference, &flipped);
    assert_eq!(status, Some(1), "{said}");
    let first = "The first difference: the output of [module]Conv2d: conv2 in step 0, where the inputs agree: ";
    assert!(said.starts_with(first), "{said}");
}
