//! Tests of optional data in traces.

use std::sync::{Arc, Mutex};

use mlprof_core::Error;
use mlprof_core::SourceLocation;
use mlprof_core::hook::{DType, InputsBuilder, OpStart};
use mlprof_core::trace::Error as TraceError;
use mlprof_core::{Action, ActionKind, Interest, Profiler, RunContext, Stage, TensorProfiler};
use serde_json::{Value, json};

use crate::parsed::Trace;
use crate::recorded::{action, op, run, text};

/// Returns the trace that a profiler with these settings writes for `program`.
fn traced(profiler: TensorProfiler, program: impl FnOnce(&TensorProfiler)) -> Trace {
    let written = Arc::new(Mutex::new(String::new()));
    let place = written.clone();
    let profiler = profiler
        .without_schedule()
        .on_trace_ready(move |cycle| *place.lock().expect("no panic") = text(cycle));
    profiler.setup(Stage::Fit, &RunContext::default());
    program(&profiler);
    profiler.teardown(None);
    let text = written.lock().expect("no panic").clone();
    Trace::of(&text)
}

/// Runs a matrix product of 2 × 3 and 3 × 5.
fn product(profiler: &TensorProfiler, name: &str, inside: impl FnOnce()) {
    let mut inputs = InputsBuilder::new();
    inputs.tensor(DType::Float32, &[2, 3]);
    inputs.tensor(DType::Float32, &[3, 5]);
    run(profiler, &OpStart { inputs: Some(&inputs), ..OpStart::new(Action::op(name)) }, inside);
}

#[test]
fn ops_say_what_they_compute_once() {
    let program = |profiler: &TensorProfiler| {
        product(profiler, "aten::mm", || product(profiler, "aten::bmm", || {}));
        action(profiler, "step", || product(profiler, "aten::mv", || {}));
        op(profiler, "aten::relu", || {});
    };
    let asked = traced(TensorProfiler::new().record_shapes(false).with_flops(true), program);
    let flops = |trace: &Trace, name: &str| trace.slice(name).args["flops"].clone();
    let all = ["aten::mm", "aten::bmm", "aten::mv", "aten::relu"];
    // An op inside a counted op does the same work, so it is not counted again. The table follows
    // the same rule.
    assert_eq!(
        all.map(|name| flops(&asked, name)),
        [json!(60), Value::Null, json!(60), Value::Null]
    );
    let bytes = |name: &str| asked.slice(name).args["bytes"].clone();
    assert_eq!(all.map(bytes), [json!(4 * 31), Value::Null, json!(4 * 31), Value::Null]);
    assert_eq!(asked.all["with_flops"], 1);
    let silent = traced(TensorProfiler::new(), program);
    assert_eq!(all.map(|name| flops(&silent, name)), [const { Value::Null }; 4]);
    assert_eq!(silent.all["with_flops"], 0);
}

#[test]
fn ops_say_what_was_open_around_them() {
    let function = |name: &str, line: u32| {
        Action::with_location(
            ActionKind::Function,
            name,
            SourceLocation { file: "src/net.rs", line },
        )
    };
    let program = |profiler: &TensorProfiler| {
        action(profiler, "training_step", || {
            for line in [7, 9] {
                let forward = function("net::forward", line);
                profiler.start(forward);
                op(profiler, &format!("outer {line}"), || {
                    op(profiler, &format!("inner {line}"), || {})
                });
                profiler.stop(forward).expect("it was started");
            }
        });
        op(profiler, "alone", || {});
    };
    let asked = traced(TensorProfiler::new().with_stack(true), program);
    let stack = |trace: &Trace, name: &str| trace.slice(name).args["Call stack"].clone();
    for line in [7, 9] {
        let expected = format!("src/net.rs({line}): net::forward;training_step;");
        for op in ["outer", "inner"] {
            assert_eq!(stack(&asked, &format!("{op} {line}")), expected);
        }
    }
    assert_eq!(stack(&asked, "alone"), Value::Null);
    assert_eq!(asked.all["with_stack"], 1);
    let silent = traced(TensorProfiler::new(), program);
    assert_eq!((stack(&silent, "outer 7"), &silent.all["with_stack"]), (Value::Null, &json!(0)));
}

#[test]
fn a_trace_says_of_itself_what_it_is_told() {
    let profiler = TensorProfiler::new().trace_id("run \"7\"");
    let trace = traced(profiler, |profiler| {
        profiler.add_metadata_json("batch", "{\"size\": [64,\n 1]}").expect("it is JSON");
        profiler.add_metadata_json("batch", "{\"size\": 32}").expect("it is JSON");
        profiler.add_metadata("model \"a\"", "line\nline").expect("a text");
        let refused = profiler.add_metadata_json("batch", "{size: 64}");
        assert!(matches!(refused, Err(Error::Metadata(TraceError::NotJson(_)))), "{refused:?}");
        let taken = profiler.add_metadata("traceEvents", "none");
        assert_eq!(taken, Err(Error::Metadata(TraceError::NameTaken("traceEvents".to_owned()))));
        op(profiler, "one", || {});
    });
    assert_eq!(trace.all["trace_id"], "run \"7\"");
    assert_eq!(trace.all["batch"], json!({"size": 32}));
    assert_eq!(trace.all["model \"a\""], "line\nline");
    // All names that a trace itself uses are rejected.
    let profiler = TensorProfiler::new();
    for name in trace.all.as_object().expect("an object").keys() {
        let is_ours = ["batch", "model \"a\""].contains(&name.as_str());
        assert_eq!(profiler.add_metadata(name, "").is_ok(), is_ours, "{name}");
    }
}

#[test]
fn recorded_content_can_change_during_a_run() {
    let wants = |profiler: &TensorProfiler| profiler.interest();
    let profiler = TensorProfiler::new().without_schedule();
    profiler.setup(Stage::Fit, &RunContext::default());
    let before = wants(&profiler);
    assert!(
        before.contains(Interest::SHAPES | Interest::DEVICE) && !before.contains(Interest::MEMORY)
    );
    profiler.toggle_collection(Interest::SHAPES | Interest::DEVICE, false);
    profiler.toggle_collection(Interest::MEMORY, true);
    let after = wants(&profiler);
    assert!(after.contains(Interest::ACTIONS | Interest::OPS | Interest::MEMORY));
    assert!(!after.contains(Interest::SHAPES) && !after.contains(Interest::DEVICE));
    // Events that define the recording cannot be disabled.
    profiler.toggle_collection(Interest::ALL, false);
    assert_eq!(wants(&profiler), Interest::ACTIONS | Interest::FUNCTIONS);
    profiler.toggle_collection(Interest::OPS | Interest::SHAPES | Interest::DEVICE, true);
    assert_eq!(wants(&profiler), before);
    profiler.teardown(None);
    assert_eq!(wants(&profiler), Interest::NONE);
}
