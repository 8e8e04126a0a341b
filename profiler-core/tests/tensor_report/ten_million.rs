//! Tests the time for a table over ten million events.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use mlprof_core::hook::{DType, Direction, InputsBuilder, OpStart};
use mlprof_core::report::tensor::TableOptions;
use mlprof_core::tensor::GroupBy;
use mlprof_core::{Action, Profiler, RunContext, Stage, TensorProfiler};

const EVENTS: u64 = 10_000_000;
const LAYERS: u64 = 24;

/// Records forward and backward passes of a model until there are enough events. Returns their
/// number.
fn record(profiler: &TensorProfiler) -> u64 {
    let names = |kind: &str| -> Vec<_> {
        (0..8).map(|number| Action::op(&format!("aten::{kind}_{number}"))).collect()
    };
    let (forward, backward) = (names("op"), names("backward"));
    let layers: Vec<_> =
        (0..LAYERS).map(|layer| Action::module("Block", &format!("blocks.{layer}"))).collect();
    let mut inputs = InputsBuilder::new();
    let (mut events, mut sequence) = (0, 1);
    let mut op = |action: Action, sequence: u32, direction: Direction| {
        inputs.clear();
        inputs.tensor(DType::Float32, &[8, i64::from(action.index() as u32 % 5)]);
        let mut start = OpStart::new(action);
        (start.inputs, start.sequence, start.direction) = (Some(&inputs), sequence, direction);
        profiler.start_op(&start);
    };
    let stop = |action| profiler.stop(action).expect("was started");
    while events < EVENTS {
        let first = sequence;
        for layer in &layers {
            profiler.start(*layer);
            for pair in forward.chunks(2) {
                op(pair[0], sequence, Direction::Forward);
                op(pair[1], 0, Direction::Forward);
                stop(pair[1]);
                stop(pair[0]);
                sequence += 1;
            }
            stop(*layer);
        }
        for number in (first..sequence).rev() {
            let pair = &backward[..2];
            op(pair[0], number, Direction::Backward);
            op(pair[1], 0, Direction::Backward);
            stop(pair[1]);
            stop(pair[0]);
        }
        events += LAYERS * (1 + 8 + 8);
    }
    events
}

#[test]
#[ignore = "a measurement, for an optimised build"]
fn a_table_over_ten_million_events_takes_less_than_five_seconds() {
    let taken = Arc::new(Mutex::new(Duration::MAX));
    let sink = taken.clone();
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        let started = Instant::now();
        let averages = cycle.key_averages(&GroupBy::name().module());
        let folded = started.elapsed();
        let table = averages.table(&TableOptions::default());
        let (rows, all) = (averages.rows.len(), started.elapsed());
        println!(
            "{} events: {rows} rows in {folded:?}, {} bytes of table in {all:?}",
            cycle.event_count(),
            table.len()
        );
        *sink.lock().expect("no panic") = all;
    });
    profiler.setup(Stage::Fit, &RunContext::default());
    let started = Instant::now();
    let events = record(&profiler);
    println!("recorded {events} events in {:?}", started.elapsed());
    profiler.teardown(Some(Stage::Fit));
    let averages = profiler.key_averages(&GroupBy::name());
    assert_eq!(averages.total_average().calls, events);
    let taken = *taken.lock().expect("no panic");
    assert!(taken < Duration::from_secs(5), "{taken:?}");
}
