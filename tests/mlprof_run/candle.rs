//! candle, which has no hook for its ops.

use profiler_core::Stage;
use profiler_core::hook::TensorShape;
use tempfile::tempdir;
use tests::python;

use crate::{calls_per_step, file, report, rows, run};

/// Of batches of 32.
#[test]
fn a_step_of_the_digits_has_its_ops_with_shapes_forward_and_backward() {
    let results = tempdir().expect("a folder");
    let options = ["--ops", "candle", "--group-by-shapes"];
    let finished = run(&options, &["-p", "candle-digits"], &["--epochs", "1"], results.path());
    // The program was given no profiler: it trains as ever, and its trainer tells of its steps.
    assert!(finished.stderr.contains("FIT Profiler Report"), "{finished:?}");
    assert!(finished.stdout.contains("test accuracy"), "{finished:?}");
    let fit = report(results.path(), "fit-candle-digits-");
    assert_eq!(fit.recorded_steps, 3);
    assert!(!fit.header.notes.iter().any(|note| note.contains("gives no hook")), "{fit:?}");
    // Two convolutions: forward, and backward by a transposed one for the input and another one for
    // the weights. Two layers of matrix products: one forward and two backward.
    let expected = [("conv2d", 4.0), ("conv_transpose2d", 2.0), ("matmul", 6.0), ("backward", 1.0)];
    for (name, calls) in expected {
        let name = format!("candle::{name}");
        assert_eq!(calls_per_step(&fit, &name), calls, "{name}");
    }
    let shapes: Vec<Vec<Vec<i64>>> = rows(&fit, "candle::conv2d")
        .iter()
        .filter_map(|row| row.input_shapes.as_ref())
        .map(|inputs| inputs.iter().filter_map(dimensions).collect())
        .collect();
    let forward = vec![vec![32, 16, 8, 8], vec![32, 16, 3, 3]];
    assert!(shapes.contains(&forward), "{shapes:?}");
    assert!(rows(&fit, "candle::matmul").iter().all(|row| row.flops > 0), "{fit:?}");
    // The test stage has no backward pass.
    let test = report(results.path(), "test-candle-digits-");
    assert_eq!(calls_per_step(&test, "candle::conv2d"), 2.0);
    assert!(rows(&test, "candle::backward").is_empty());
    // What runs after the last stage is no part of its report.
    let outside = report(results.path(), "candle-digits-");
    assert_eq!((outside.header.stage, test.header.stage), (None, Some(Stage::Test)));
}

fn dimensions(shape: &TensorShape) -> Option<Vec<i64>> {
    match shape {
        TensorShape::Tensor(_, dimensions) => Some(dimensions.clone()),
        _ => None,
    }
}

/// Ops without an op inside, in the slice that is named; and those that are left out of the count.
const LEAVES: &str = r#"
import collections, gzip, json, sys
path, name = sys.argv[1], sys.argv[2]
events = json.load(gzip.open(path, "rt"))["traceEvents"]
slices = [e for e in events if e["ph"] == "X"]
[outer] = [e for e in slices if e["name"] == name]
inside = lambda e, o: e is not o and o["ts"] <= e["ts"] and e["ts"] + e["dur"] <= o["ts"] + o["dur"]
ops = [e for e in slices if e["cat"] == "cpu_op" and inside(e, outer)]
leaves = [e for e in ops if not any(inside(other, e) for other in ops)]
print(json.dumps(collections.Counter(e["name"] for e in leaves)))
"#;

/// candle remembers each operation that has a gradient: as many as there are ops without ops inside.
#[test]
fn as_many_ops_are_seen_as_candle_itself_remembers() {
    let results = tempdir().expect("a folder");
    let cargo = ["-p", "candle-digits", "--bin", "candle-tracked-nodes"];
    let finished = run(&["--ops", "candle"], &cargo, &[], results.path());
    let said = finished.stdout.lines().find_map(|line| line.strip_suffix(" tracked nodes"));
    let nodes: u64 = said.expect("the count").parse().expect("a number");
    let trace = file(results.path(), "candle-tracked-nodes-", ".pt.trace.json.gz");
    let counted = python::run(LEAVES, &[&trace, "counted_forward".as_ref()]);
    let counted: serde_json::Value = serde_json::from_str(&counted).expect("JSON");
    let ops: u64 = counted.as_object().expect("a table").values().filter_map(|n| n.as_u64()).sum();
    assert_eq!(ops, nodes, "{counted:#}");
}
