//! Tests of unusual names and arguments.

use mlprof_core::hook::{DType, InputsBuilder, OpStart};
use mlprof_core::{Action, Profiler};
use proptest::prelude::*;

use crate::parsed::Trace;
use crate::python;
use crate::recorded::{action, op, run, trace};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_name_is_read_as_it_was(name in any::<String>(), other in "[\\PC\\x00-\\x1f\"\\\\]{0,20}") {
        let text = trace(|profiler| {
            action(profiler, &name, || {});
            op(profiler, &other, || {});
        });
        let names: Vec<String> = Trace::of(&text).slices().into_iter().map(|slice| slice.name).collect();
        prop_assert_eq!(names, [other, name]);
    }
}

/// All characters that may cause problems for a reader.
const STRANGE: &str = "\0\u{1}\u{8}\t\n\r\u{1f}\u{7f}\u{85}\u{9f}\u{2028}\u{2029}\u{feff}\u{fffe}\u{ffff}\
    \u{10ffff}\"\\/<>&';é🔥\u{202e}]}},";

#[test]
fn python_reads_the_strangest_names() {
    let text = trace(|profiler| {
        op(profiler, STRANGE, || {});
        action(profiler, STRANGE, || {});
        std::thread::Builder::new()
            .name(STRANGE.replace('\0', ""))
            .spawn(|| {})
            .expect("a thread")
            .join()
            .expect("no panic");
    });
    let script = "import json, sys
trace = json.load(open(sys.argv[1], encoding='utf-8'))
names = [event['name'] for event in trace['traceEvents'] if event['ph'] == 'X']
print(json.dumps(names))";
    let file = python::file(text.as_bytes());
    let names: Vec<String> =
        serde_json::from_str(&python::run(script, &[python::path(&file)])).expect("JSON");
    assert_eq!(names, [STRANGE, STRANGE]);
    assert!(!text.chars().any(|character| character.is_control() && character != '\n'));
}

#[test]
fn shapes_of_rank_0_and_12_are_written() {
    let text = trace(|profiler| {
        let mut inputs = InputsBuilder::new();
        inputs.tensor(DType::Float32, &[]);
        inputs.tensor(DType::Int64, &[1; 12]);
        inputs.integers(&[3, 3]);
        let mut start = OpStart::new(Action::op("shaped"));
        start.inputs = Some(&inputs);
        run(profiler, &start, || {});
        op(profiler, "shapeless", || {});
    });
    let trace = Trace::of(&text);
    let args = trace.slice("shaped").args;
    assert_eq!(
        args["Input Dims"],
        serde_json::json!([[], [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1], []])
    );
    assert_eq!(args["Input type"], serde_json::json!(["float", "long int", "ScalarList"]));
    assert_eq!(args["Concrete Inputs"], serde_json::json!(["", "", "[3,3]"]));
    assert_eq!(trace.slice("shapeless").args["Input Dims"], serde_json::Value::Null);
    assert_eq!(trace.all["record_shapes"], 1);
}

#[test]
fn every_kind_of_event_has_a_category_that_readers_know() {
    use mlprof_core::ActionKind::{Action as Plain, Function, Module, Op, Span};
    let kinds = [Plain, Function, Module, Op, Span];
    let text = trace(|profiler| {
        for kind in kinds {
            let action = Action::of_kind(kind, &format!("{kind:?}"), None);
            profiler.start(action);
            profiler.stop(action).expect("it was started");
        }
    });
    let trace = Trace::of(&text);
    for kind in kinds {
        let expected = if kind == Op { "cpu_op" } else { "user_annotation" };
        assert_eq!(trace.slice(&format!("{kind:?}")).category, expected);
    }
}
