//! The numbers of candle's network and of tch's, which begin with the same weights and see the same batches.

use std::path::Path;

use serde_json::Value;
use tempfile::{TempDir, tempdir};
use tests::numerics::{compare, run, said};
use tests::program::{Run, build};

/// The optimizers are not the same: AdamW makes weights smaller besides.
const OPTIMIZERS: [&str; 2] = ["--tolerance", "0.02"];

/// A folder with candle's weights of the beginning of an epoch, in `saved/`.
fn weights() -> TempDir {
    let directory = tempdir().expect("a folder");
    Run::of(&build("candle-digits", "candle-digits"), directory.path())
        .args(["--profiler", "none", "--epochs", "1", "--checkpoint-dir", "saved"])
        .succeed();
    directory
}

/// The record of the first step of a training that begins with these weights.
fn first_step(package: &str, weights: &Path, arguments: &[&str]) -> TempDir {
    let directory = tempdir().expect("a folder");
    let mut saved = std::fs::read_dir(weights.join("saved")).expect("a folder").flatten();
    let saved = saved.next().expect("a checkpoint").path();
    let weights = saved.to_str().expect("text");
    let own = ["--every", "1000", "--epochs", "1", "--weights", weights];
    let finished = run(&build(package, package), directory.path(), &[&own, arguments].concat());
    assert!(finished.status.success(), "{finished:#?}");
    directory
}

#[test]
fn two_frameworks_agree_down_to_rounding_until_one_of_them_has_another_kernel() {
    let weights = weights();
    let candle = first_step("candle-digits", weights.path(), &[]);
    let tch = first_step("tch-digits", weights.path(), &[]);
    let compared = compare(candle.path(), tch.path(), &OPTIMIZERS);
    let text = said(&compared);
    assert!(compared.status.success(), "{text}");
    assert!(text.contains("1 step was compared. No difference.\n"), "{text}");
    assert!(text.contains("the batches are the same in all 1 steps."), "{text}");

    // What the optimizers have no part in is closer than any of their steps.
    let compared = compare(candle.path(), tch.path(), &["--json"]);
    let found: Value = serde_json::from_slice(&compared.stdout).expect("JSON");
    let places = found["places"].as_array().expect("places");
    let of_role = |role: &'static str| places.iter().filter(move |place| place["role"] == role);
    for (role, count) in [("output", 4), ("loss", 1), ("gradient", 8), ("parameter", 8)] {
        let agree = of_role(role).filter(|place| place["different"] == 0).count();
        assert_eq!((of_role(role).count(), agree), (count, count), "{role}: {places:#?}");
    }

    let flipped = first_step("tch-digits", weights.path(), &["--plant", "flipped"]);
    let compared = compare(candle.path(), flipped.path(), &OPTIMIZERS);
    let text = said(&compared);
    assert_eq!(compared.status.code(), Some(1), "{text}");
    let first = text.lines().next().unwrap_or_default();
    assert!(first.starts_with("The first difference: the output of [module]Conv2"), "{first}");
    assert!(first.contains(": conv2 in step 0, where the inputs agree: "), "{first}");
}
