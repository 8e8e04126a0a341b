//! Tests `mlprof what-if` as a command.

use serde_json::Value;

use super::{mlprof, path, text};

/// Folder of recorded traces.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/");

fn printed(file: &str, arguments: &[&str]) -> String {
    let file = format!("{FOLDER}{file}");
    let output = mlprof(&[&["what-if", &file], arguments].concat());
    assert!(output.status.success(), "{}", text(&output.stderr));
    text(&output.stdout)
}

fn json(file: &str, arguments: &[&str]) -> Value {
    serde_json::from_str(&printed(file, &[arguments, &["--json"]].concat())).expect("JSON")
}

#[test]
fn without_changes_recorded_steps_keep_their_durations() {
    for file in [
        "digits.pt.trace.json.gz",
        "recorded/burn-h200.pt.trace.json.gz",
        "recorded/candle-h100.pt.trace.json.gz",
        "recorded/tch-h200.pt.trace.json.gz",
    ] {
        let answer = json(file, &[]);
        let steps = answer["steps"].as_array().expect("steps");
        assert_eq!(steps.len(), 3, "{file}");
        for step in steps {
            assert_eq!(step["recorded_ns"], step["predicted_ns"], "{file}");
        }
        assert_eq!(answer["low_ns"], answer["high_ns"], "{file}");
    }
}

#[test]
fn changes_are_combined_and_have_an_interval() {
    let all = |arguments: &[&str]| {
        let answer = json("digits.pt.trace.json.gz", arguments);
        let number = |key: &str| answer[key].as_i64().expect("a number");
        assert!(number("low_ns") <= number("predicted_ns"));
        assert!(number("predicted_ns") <= number("high_ns"));
        assert_eq!(answer["limits"].as_array().map(Vec::len), Some(3));
        number("recorded_ns") - number("predicted_ns")
    };
    let (half, free) = (["--scale", "candle::conv2d=0.5"], ["--free", "candle::add"]);
    let (of_half, of_free) = (all(&half), all(&free));
    assert!(of_half > 0 && of_free > 0);
    // The program has one thread, so the gains add up, except for rounding.
    assert!((all(&[half, free].concat()) - of_half - of_free).abs() < 1_000);
}

#[test]
fn tables_list_steps_and_improvements() {
    let text = printed("digits.pt.trace.json.gz", &["--free", "candle::conv2d", "--best", "2"]);
    for line in [
        "  candle::conv2d takes no time\n",
        "All steps: ",
        "Interval: ",
        "Step  Recorded  Predicted  Change",
        "Note: the graph has no contention",
        "Single improvements by 10 % that gain most",
        "candle::conv_transpose2d\n",
    ] {
        assert!(text.contains(line), "{line:?} is missing in:\n{text}");
    }
}

#[test]
fn unknown_names_are_errors() {
    let folder = tempfile::tempdir().expect("a folder");
    let missing = folder.path().join("missing.json");
    let output = mlprof(&["what-if", path(&missing)]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    let file = format!("{FOLDER}digits.pt.trace.json.gz");
    let output = mlprof(&["what-if", &file, "--free", "candle::matmull"]);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(2), 0));
    let error = text(&output.stderr);
    assert!(error.contains("help: similar names: candle::matmul, "), "{error}");
}
