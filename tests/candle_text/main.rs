//! Tests the example `candle-text`: a transformer layer by layer, and one profiled through its
//! spans.

use std::path::{Path, PathBuf};

use tempfile::tempdir;
use tests::findings::assert_healthy;
use tests::program::{Finished, Run, build};
use tests::table::Table;

const PACKAGE: &str = "candle-text";

fn run(program: &Path, arguments: &[&str]) -> Finished {
    let directory = tempdir().expect("a folder");
    Run::of(program, directory.path()).args(arguments).succeed()
}

fn spans() -> PathBuf {
    build(PACKAGE, "transformer-spans")
}

#[test]
fn the_transformer_learns_to_write_and_shows_its_layers() {
    let run = run(&build(PACKAGE, "char-transformer"), &["--profiler", "simple", "--epochs", "1"]);
    let fit = Table::find("FIT", &run.stdout);
    let steps = fit.row("run_training_batch").calls;
    assert!(steps > 10, "{steps}");
    let attention = fit.row("[module]SelfAttention: blocks.0.attention");
    let block = fit.row("[module]Block: blocks.0");
    assert_eq!(attention.calls, block.calls);
    assert!(attention.total < block.total, "a part is less than the whole");
    let line = run.stdout.lines().find(|line| line.starts_with("final loss: "));
    let line = line.unwrap_or_else(|| panic!("no final loss in:\n{}", run.stdout));
    let loss = line["final loss: ".len()..].split(',').next().and_then(|loss| loss.parse().ok());
    let loss: f64 = loss.unwrap_or_else(|| panic!("no number in {line:?}"));
    // Random guessing among about fifty characters gives a loss of about 3.9.
    assert!(loss < 3.0, "{loss}");
}

#[test]
fn a_healthy_training_gives_nothing_above_a_hint() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "1", "--schedule", "wait=2,warmup=1,active=30"];
    assert_healthy(&build(PACKAGE, "char-transformer"), directory.path(), &arguments, &[]);
    let every_step = ["--schedule", "wait=0,active=2"];
    assert_healthy(&spans(), directory.path(), &every_step, &[]);
}

#[test]
fn spans_of_a_model_of_candle_transformers_are_rows() {
    let simple = run(&spans(), &["--profiler", "simple"]);
    let table = Table::find("PREDICT", &simple.stdout);
    for span in ["model", "encoder", "self-attn"] {
        let row = table.rows.iter().find(|row| row.action == span);
        assert!(row.is_some_and(|row| row.calls > 0), "no span {span}:\n{}", simple.stdout);
    }
    let advanced = run(&spans(), &["--profiler", "advanced"]);
    assert!(advanced.stdout.contains("(self-attn)"), "{}", advanced.stdout);
    let tensor = run(&spans(), &["--profiler", "tensor", "--schedule", "wait=0,active=2"]);
    for expected in ["PREDICT Profiler Report", "ProfilerStep*", "self-attn", "Steps 1 to 2"] {
        assert!(tensor.stdout.contains(expected), "no {expected:?} in:\n{}", tensor.stdout);
    }
    assert!(!tensor.stderr.contains("no span was recorded"), "{}", tensor.stderr);
}

/// Checks a model with two layers of the same kind, whose spans have equal names.
#[test]
fn spans_of_a_model_of_candle_transformers_are_its_modules() {
    let simple = run(&spans(), &["--modules", "--profiler", "simple", "--batches", "5"]);
    let table = Table::find("PREDICT", &simple.stdout);
    for layer in ["layer.0", "layer.1"] {
        let row = table.row(&format!("[module]Span: model.encoder.{layer}"));
        assert_eq!(row.calls, 5, "{}", simple.stdout);
    }
    let schedule = ["--schedule", "wait=0,active=2"];
    let tensor = run(&spans(), &[&["--modules", "--profiler", "tensor"], &schedule[..]].concat());
    let (_, modules) = tensor.stdout.split_once("Modules, in the order").expect("their table");
    for layer in ["layer", "0: Span", "1: Span"] {
        assert!(modules.contains(layer), "no {layer:?} in:\n{modules}");
    }
    assert!(!tensor.stderr.contains("no span was recorded"), "{}", tensor.stderr);
}

/// Checks that a layer installed after the model was built receives no spans, and that the program
/// prints a note.
#[test]
fn spans_of_a_model_that_was_there_first_are_missed_with_a_word() {
    let late = run(&spans(), &["--profiler", "simple", "--late"]);
    let table = Table::find("PREDICT", &late.stdout);
    assert!(!table.rows.iter().any(|row| row.action == "model"), "{}", late.stdout);
    assert!(late.stderr.contains("no span was recorded"), "{}", late.stderr);
}
