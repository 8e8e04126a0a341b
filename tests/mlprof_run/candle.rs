//! Tests `mlprof run` with candle, which has no hook for its ops.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use mlprof_core::Stage;
use mlprof_core::hook::TensorShape;
use mlprof_core::report::page;
use serde_json::Value;
use tempfile::tempdir;
use tests::{program, python};

use crate::{calls_per_step, file, numerics, prepared, report, rows, run, turn};

/// Checks the ops of a step with a batch of 32.
#[test]
fn a_step_of_the_digits_has_its_ops_with_shapes_forward_and_backward() {
    let results = tempdir().expect("a folder");
    let options = ["--ops", "candle", "--group-by-shapes", "--html"];
    let finished = run(
        &options,
        &["--profile", "hooked", "-p", "candle-digits"],
        &["--epochs", "1"],
        results.path(),
    );
    // The program was started without a profiler. It trains as usual, and its trainer reports its
    // steps.
    assert!(finished.stderr.contains("FIT Profiler Report"), "{finished:?}");
    assert!(finished.stdout.contains("test accuracy"), "{finished:?}");
    let fit = report(results.path(), "fit-candle-digits-");
    assert_eq!(fit.recorded_steps, 3);
    assert!(!fit.header.notes.iter().any(|note| note.contains("provides no hook")), "{fit:?}");
    // There are two convolutions. Their backward pass uses a transposed convolution for the input
    // and another one for the weights. There are two layers of matrix products: one forward and two
    // backward each.
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
    // Images have 8 × 8 pixels and kernels 3 × 3. The channels are 1, 16 and 32.
    let once = 2 * 32 * (8 * 8) * (16 + 16 * 32) * (3 * 3);
    for (name, flops) in [("conv2d", 2 * once), ("conv_transpose2d", once)] {
        let rows = rows(&fit, &format!("candle::{name}"));
        let counted: u64 = rows.iter().map(|row| row.flops).sum();
        assert_eq!(counted, flops * fit.recorded_steps, "{name}");
    }
    // The test stage has no backward pass.
    let test = report(results.path(), "test-candle-digits-");
    assert_eq!(calls_per_step(&test, "candle::conv2d"), 2.0);
    assert!(rows(&test, "candle::backward").is_empty());
    // Code after the last stage is not part of the stage's report.
    let outside = report(results.path(), "candle-digits-");
    assert_eq!((outside.header.stage, test.header.stage), (None, Some(Stage::Test)));
    check_page(results.path(), &finished.stderr);
}

/// Checks that only one copy of mlprof accepts connections. The library of `mlprof run` leaves this
/// to the program's own copy, which knows stages and epochs.
#[test]
fn a_program_with_a_plugin_listens_once() {
    let (results, runtime) = (tempdir().expect("a folder"), tempdir().expect("a folder"));
    let cargo = ["--profile", "hooked", "-p", "candle-digits"];
    let options = ["--ops", "candle", "--live"];
    let _turn = turn();
    let run = prepared(&options, &cargo, &["--epochs", "20"], results.path());
    let mut running = run.env("XDG_RUNTIME_DIR", runtime.path()).start();
    running.wait_until_it_says("epoch 2/");
    let mlprof = program::build("mlprof", "mlprof");
    let mut listed = Command::new(mlprof);
    listed.args(["ps", "--json"]).env("XDG_RUNTIME_DIR", runtime.path());
    let listed = listed.output().expect("it runs");
    let all: Value = serde_json::from_slice(&listed.stdout).expect("states");
    let [process] = &all.as_array().expect("a list")[..] else { panic!("one process: {all}") };
    let training = &process["trainings"][0];
    assert_eq!((&training["stage"], &training["epochs"]), (&"fit".into(), &20.into()));
    // Only one thread accepts connections. The library's own copy started earlier and has stopped.
    let threads = format!("/proc/{}/task", process["process"]);
    let threads = std::fs::read_dir(threads).expect("it runs").flatten();
    let names = threads.filter_map(|it| std::fs::read_to_string(it.path().join("comm")).ok());
    assert_eq!(names.filter(|name| name == "mlprof-live\n").count(), 1);
    running.interrupt();
    let finished = running.finish();
    assert!(!finished.stderr.contains("live inspection is off"), "{finished:?}");
}

/// Checks that one HTML page contains all stages and needs no network.
fn check_page(results: &Path, said: &str) {
    let html = std::fs::read_to_string(results.join("report.html")).expect("the page");
    assert!(said.contains("  report.html"), "{said}");
    for part in ["Tensor · fit</h2>", "Tensor · test</h2>", "candle::conv2d", "[[32, 16, 8, 8], ["]
    {
        assert!(html.contains(part), "{part}");
    }
    assert!(html.contains("default-src 'none'") && !html.contains("http:"), "nothing is asked for");
    assert!(html.len() <= 300_000, "the page of all stages has {} bytes", html.len());
    let reports = page::reports_in(&html).expect("reports");
    assert!(reports.iter().any(|report| !report.step_series().is_empty()), "steps are told of");
}

fn dimensions(shape: &TensorShape) -> Option<Vec<i64>> {
    match shape {
        TensorShape::Tensor(_, dimensions) => Some(dimensions.clone()),
        _ => None,
    }
}

/// Python script that counts, by name, the ops without inner ops inside the named slice.
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

/// Returns the number of calls of each op without inner ops in the named scope.
fn leaves(trace: &Path, scope: &str) -> BTreeMap<String, u64> {
    let counted = python::run(LEAVES, &[trace, scope.as_ref()]);
    serde_json::from_str(&counted).expect("JSON")
}

/// Checks that the number of ops without inner ops equals the number of nodes in candle's own
/// computation graph. A custom op has its own name, not that of the function that runs it.
#[test]
fn as_many_ops_are_seen_as_candle_itself_remembers() {
    let results = tempdir().expect("a folder");
    let cargo = ["--profile", "hooked", "-p", "candle-digits", "--bin", "candle-tracked-nodes"];
    let finished = run(&["--ops", "candle"], &cargo, &[], results.path());
    let said = finished.stdout.lines().find_map(|line| line.strip_suffix(" tracked nodes"));
    let nodes: u64 = said.expect("the count").parse().expect("a number");
    let trace = file(results.path(), "candle-tracked-nodes-", ".pt.trace.json.gz");
    let counted = leaves(&trace, "counted_forward");
    assert_eq!(counted.values().sum::<u64>(), nodes, "{counted:#?}");
    let norm = BTreeMap::from([("candle::rms-norm".to_owned(), 1)]);
    assert_eq!(leaves(&trace, "rms_norm_layer"), norm);
}

/// Checks that the op with the first non-finite output is found, forward and backward, although
/// candle has no hook.
#[test]
fn numbers_that_ops_return_are_looked_at() {
    let results = tempdir().expect("a folder");
    let cargo = ["--profile", "hooked", "-p", "candle-digits"];
    let options = ["--ops", "candle", "--numerics"];
    let arguments = ["--epochs", "1", "--plant", "nan"];
    let finished = run(&options, &cargo, &arguments, results.path());
    let report = numerics(results.path(), "fit-candle-digits-");
    let first = report.first_not_finite.as_ref().expect("it is seen");
    let place = (first.step, first.role.name(), &*first.name);
    assert_eq!(place, (20, "op_output", "[module]Linear: hidden > candle::log"));
    let input = first.input.expect("is known");
    assert_eq!((input.minimum, input.is_finite()), (Some(0.0), true));
    let said =
        "mlprof: in step 20 the output of candle::log in [module]Linear: hidden is not finite: ";
    assert!(finished.stderr.contains(said), "{}", finished.stderr);
    let has = |role: &str, name: &str| {
        report.tensors.iter().any(|row| row.role.name() == role && row.name == name)
    };
    assert!(has("op_output", "[module]Conv2d: conv1 > candle::conv2d"), "{:#?}", report.tensors);
    assert!(has("backward_op_output", "candle::conv_transpose2d"), "{:#?}", report.tensors);
    assert!(!report.tensors.iter().any(|row| row.name.ends_with("candle::reshape")), "a view");
}
