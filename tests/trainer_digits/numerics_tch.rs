//! Tests op outputs of the network, which tch's plugin reports.

use serde_json::Value;
use tempfile::tempdir;
use tests::findings::reports;
use tests::program::Run;

use crate::program;

/// Returns the report and the output of a short fit.
fn report(arguments: &[&str]) -> (Value, String) {
    let directory = tempdir().expect("a folder");
    let finished = Run::of(&program(), directory.path())
        .args([
            "--profiler",
            "numerics",
            "--look-at-ops",
            "--epochs",
            "1",
            "--json",
            "reports.json",
        ])
        .args(arguments)
        .finish();
    let report = reports(&directory.path().join("reports.json")).remove(0);
    (report, finished.stderr)
}

#[test]
fn the_op_is_named_that_makes_what_is_not_finite_in_the_step_and_layer_where_it_does() {
    for (plant, op, largest) in [("nan", "aten::log", None), ("variance", "aten::div", Some(0.0))] {
        let (report, said) = report(&["--plant", plant]);
        let first = &report["first_not_finite"];
        let place = (first["step"].as_u64(), first["role"].as_str(), first["name"].as_str());
        let name = format!("[module]Linear: hidden > {op}");
        assert_eq!(place, (Some(20), Some("op_output"), Some(&*name)), "{plant}: {first}");
        assert_eq!(
            (&first["input"]["nans"], &first["input"]["infinities"]),
            (&0.into(), &0.into())
        );
        assert_eq!(first["input"]["minimum"], 0.0, "{first}");
        if let Some(largest) = largest {
            assert_eq!(first["input"]["maximum"], largest, "{first}");
        }
        let line = format!(
            "mlprof: in step 20 the output of {op} in [module]Linear: hidden is not finite: "
        );
        assert!(said.contains(&line), "{said}");
    }
}

#[test]
fn a_learning_rate_that_is_too_high_is_named_at_an_op_where_it_makes_numbers_too_large() {
    let (report, _) = report(&["--plant", "learning-rate"]);
    let first = &report["first_not_finite"];
    if !first.is_null() {
        assert!(
            matches!(first["role"].as_str(), Some("op_output" | "backward_op_output")),
            "{first}"
        );
        assert_eq!(
            (&first["input"]["nans"], &first["input"]["infinities"]),
            (&0.into(), &0.into())
        );
    }
}

#[test]
fn a_healthy_training_has_rows_of_ops_forward_and_backward_and_no_trouble() {
    let (report, _) = report(&[]);
    assert_eq!(report["first_not_finite"], Value::Null, "{report:#}");
    let rows = report["tensors"].as_array().expect("rows");
    let has =
        |role: &str, name: &str| rows.iter().any(|row| row["role"] == role && row["name"] == name);
    for layer in ["[module]Conv2D: conv1", "[module]Conv2D: conv2"] {
        let ops: Vec<_> = rows.iter().map(|row| row["name"].as_str().unwrap_or_default()).collect();
        let begin = format!("{layer} > aten::");
        assert!(ops.iter().any(|op| op.starts_with(&begin)), "{layer}: {ops:#?}");
    }
    assert!(has("op_output", "[module]Linear: hidden > aten::addmm"), "{rows:#?}");
    assert!(has("backward_op_output", "[module]Linear: hidden > aten::mm"), "{rows:#?}");
    assert!(has("op_output", "aten::addcdiv_"), "Adam's: {rows:#?}");
}
