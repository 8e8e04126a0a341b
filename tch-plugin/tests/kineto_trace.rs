//! Compares ops in our traces with those in torch's own traces.

mod models;
mod turn;

use std::path::Path;
use std::sync::Arc;

use mlprof_core::tensor::TensorProfiler;
use mlprof_core::{Profiler, activate};
use mlprof_tch::kineto::Kineto;
use models::{Training, digits_cnn, numbers, transformer};
use serde_json::Value;
use turn::turn;

/// Returns the ops of a single-threaded trace in the order of their starts.
fn ops(path: &Path) -> Vec<Value> {
    let text = std::fs::read_to_string(path).expect("a trace");
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events");
    let mut ops: Vec<Value> =
        events.iter().filter(|event| event["cat"] == "cpu_op").cloned().collect();
    let time = |op: &Value, key: &str| (op[key].as_f64().expect("a time") * 1e3).round() as i64;
    ops.sort_by_key(|op| (time(op, "ts"), -time(op, "dur")));
    ops
}

/// Returns our trace and torch's trace of the same steps.
fn traces(mut training: Training, profiler: TensorProfiler) -> (Vec<Value>, Vec<Value>) {
    training.step();
    let directory = tempfile::tempdir().expect("a folder");
    let (our_path, their_path) =
        (directory.path().join("ours.json"), directory.path().join("theirs.json"));
    let path = our_path.clone();
    let profiler = profiler.without_schedule().on_trace_ready(move |cycle| {
        cycle.export_chrome_trace(&path).expect("our trace is written");
    });
    let profiler = Arc::new(profiler);
    let running = Kineto { shapes: true, ..Kineto::default() }.start().expect("Kineto starts");
    let active = activate(profiler.clone());
    for _ in 0..2 {
        training.step();
    }
    profiler.teardown(None);
    drop(active);
    let theirs = running.stop().expect("Kineto stops");
    assert!(theirs.save(&their_path), "their trace is written");
    (ops(&our_path), ops(&their_path))
}

/// Converts an argument to its form in torch's traces, which omit lists of more than 30 tensors.
fn shown(argument: &Value) -> Value {
    match argument {
        Value::Array(inputs) => inputs.iter().map(without_long_lists).collect(),
        other => other.clone(),
    }
}

fn without_long_lists(input: &Value) -> Value {
    match input.as_array() {
        Some(tensors) if tensors.len() > 30 => Value::Array(Vec::new()),
        _ => input.clone(),
    }
}

/// Asserts that every op has these arguments exactly if it has them in torch's trace, with equal
/// values. Prints the number of ops with each argument.
fn have_the_same(ours: &[Value], theirs: &[Value], keys: &[&str]) {
    let names = |ops: &[Value]| ops.iter().map(|op| op["name"].clone()).collect::<Vec<_>>();
    assert_eq!(names(ours), names(theirs));
    for key in keys {
        let count = |ops: &[Value]| ops.iter().filter(|op| !op["args"][key].is_null()).count();
        println!("{key}: {} of ours, {} of theirs", count(ours), count(theirs));
        assert!(count(theirs) > 0, "{key}");
        for (own, other) in ours.iter().zip(theirs) {
            assert_eq!(shown(&own["args"][key]), other["args"][key], "{key} of {own} and {other}");
        }
    }
}

#[test]
fn ops_are_tied_to_each_other_as_in_kinetos_traces() {
    let _turn = turn();
    for training in [digits_cnn(4), transformer(2, 8)] {
        let (ours, theirs) = traces(training, TensorProfiler::new());
        have_the_same(&ours, &theirs, &["Sequence number", "Fwd thread id"]);
        let scopes = ours.iter().filter(|op| {
            let name = op["name"].as_str().unwrap_or_default();
            name.starts_with("autograd::engine::evaluate_function: ")
                && !op["args"]["Sequence number"].is_null()
        });
        let scopes = scopes.count();
        println!("scopes of the engine with a number: {scopes}");
        assert!(scopes > 20, "{scopes}");
    }
}

#[test]
fn inputs_are_written_as_in_kinetos_traces() {
    const KEYS: [&str; 4] = ["Concrete Inputs", "Input type", "Input Strides", "Input Dims"];
    let _turn = turn();
    for training in [digits_cnn(4), transformer(2, 8), numbers()] {
        let profiler = TensorProfiler::new().record_inputs(true);
        let (ours, theirs) = traces(training, profiler);
        have_the_same(&ours, &theirs, &KEYS);
        let overload = |name: &str| {
            let op = ours.iter().find(|op| op["name"] == name);
            op.map(|op| op["args"]["Overload name"].clone()).unwrap_or_default()
        };
        assert_eq!(overload("aten::mul_"), "Scalar");
    }
}
