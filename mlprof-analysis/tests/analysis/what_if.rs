//! Predictions: identity without changes, and comparison with an exact event simulator.

use mlprof_analysis::what_if::{Change, Error, WhatIf};
use mlprof_analysis::{Trace, kineto};
use proptest::prelude::*;

use crate::simulator::{Durations, plan, simulate};
use crate::synthetic::{MAIN, OTHER, action, call, json, op, slice, trace, work};

fn assert_identity(trace: &Trace, name: &str) {
    let prediction = WhatIf::of([trace]).predict(&[]).expect("no names");
    for step in &prediction.steps {
        assert_eq!(step.predicted_ns, step.recorded_ns, "{name}: {step:?}");
    }
    assert!(!prediction.steps.is_empty(), "{name}");
}

#[test]
fn without_changes_steps_keep_their_durations() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/cases");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).expect("cases") {
        let path = entry.expect("an entry").path();
        if path.extension().is_some_and(|extension| extension == "json") {
            let text = std::fs::read(&path).expect("a file");
            let trace = kineto::read(text.as_slice()).expect("a trace");
            assert_identity(&trace, &path.display().to_string());
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

fn predicted_us(events: &[String], changes: &[Change]) -> i64 {
    let trace = trace(events);
    WhatIf::of([&trace]).predict(changes).expect("a prediction").predicted_ns / 1_000
}

fn scale(name: &str, factor: f64) -> Change {
    Change::Scale(name.to_owned(), factor)
}

/// Checks a step that waits for a kernel, which ran beside an op of the host.
#[test]
fn a_gain_ends_where_something_else_becomes_critical() {
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        call("cudaLaunchKernel", 0.0, 5.0, 1),
        op("busy", 5.0, 35.0),
        call("cudaDeviceSynchronize", 40.0, 50.0, 0),
        work("kernel", "gemm", 10.0, 78.0, 1),
    ];
    let changed = |factor: f64| predicted_us(&events, &[scale("gemm", factor)]);
    assert_eq!(changed(1.0), 100);
    assert_eq!(changed(0.5), 61);
    // The host's op ends after the kernel.
    assert_eq!((changed(0.25), changed(0.0)), (52, 52));
    assert_eq!(changed(2.0), 178);
    assert_eq!(predicted_us(&events, &[scale("busy", 0.0)]), 100);
    assert_eq!(predicted_us(&events, &[scale("busy", 0.0), scale("gemm", 0.5)]), 61);
}

#[test]
fn free_data_does_not_wait_for_the_loader() {
    let arrow = r#"{"ph":"s","cat":"hand_over","name":"batch","id":1,"pid":100,"tid":101,"ts":10},
        {"ph":"f","cat":"hand_over","name":"batch","id":1,"pid":100,"tid":100,"ts":5}"#;
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        action("train_dataloader_next", 5.0, 50.0),
        op("aten::mm", 60.0, 30.0),
        slice(OTHER, "cpu_op", "decode", 10.0, 40.0),
        arrow.to_owned(),
    ];
    assert_eq!(predicted_us(&events, &[Change::Free("data".to_owned())]), 50);
    // The request at 5 µs precedes the decoding by 5 µs, and the wait ends 5 µs after it.
    assert_eq!(predicted_us(&events, &[scale("decode", 0.5)]), 80);
    assert_eq!(predicted_us(&events, &[Change::Overlap("aten::mm".to_owned())]), 70);
}

#[test]
fn unknown_names_are_errors_with_similar_names() {
    let trace = trace(&[action("ProfilerStep#1", 0.0, 100.0), op("aten::matmul", 0.0, 5.0)]);
    let error = WhatIf::of([&trace]).predict(&[scale("aten::matmull", 0.5)]).expect_err("no name");
    assert_eq!(
        error.to_string(),
        "cannot change aten::matmull: no slice of the traces has this name\nhelp: similar names: aten::matmul"
    );
    let error = WhatIf::of([&trace]).predict(&[Change::HealthyRank(3)]).expect_err("one rank");
    assert_eq!(error, Error::UnknownRank(3));
}

#[test]
fn the_best_improvement_is_on_the_critical_path() {
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        op("long", 0.0, 60.0),
        op("short", 60.0, 30.0),
        slice((0, 7), "kernel", "hidden", 0.0, 90.0),
        slice(MAIN, "cpu_op", "tiny", 95.0, 1.0),
    ];
    let trace = trace(&events);
    let best = WhatIf::of([&trace]).best(2, &[]).expect("improvements");
    let rows: Vec<_> = best.iter().map(|row| (row.name.as_str(), row.gain_ns)).collect();
    assert_eq!(rows, [("long", 6_000), ("short", 3_000)]);
    assert!(best.iter().all(|row| row.low_ns <= row.gain_ns && row.gain_ns <= row.high_ns));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    /// Checks that the replay of a recorded simulation predicts the simulation with other durations
    /// to the nanosecond.
    #[test]
    fn predictions_are_those_of_the_simulator(plan in plan(), halves in 0_i64..5) {
        let before = Durations::default();
        let recorded = simulate(&plan, &before);
        let trace = kineto::read(json(&recorded.events).as_bytes()).expect("a trace");
        assert_identity(&trace, "simulated");
        for (name, after) in [
            ("gemm", Durations { kernel: before.kernel * halves / 2, ..before }),
            ("relu", Durations { op: before.op * halves / 2, ..before }),
            ("decode", Durations { decode: before.decode * halves / 2, ..before }),
        ] {
            let changed = simulate(&plan, &after);
            let prediction = WhatIf::of([&trace])
                .predict(&[scale(name, halves as f64 / 2.0)]);
            let Ok(prediction) = prediction else { continue };
            let predicted: Vec<i64> =
                prediction.steps.iter().map(|step| step.predicted_ns).collect();
            prop_assert_eq!(&predicted, &changed.steps, "{} {:?}", name, plan);
            prop_assert!(prediction.low_ns <= prediction.predicted_ns);
            prop_assert!(prediction.predicted_ns <= prediction.high_ns);
        }
    }
}
