//! libtorch tells of its ops: where there are none, a report says why.

mod turn;

use std::sync::Arc;

use profiler_core::Report;
use tch::{Tensor, kind::FLOAT_CPU};
use tch_plugin::prelude::*;
use turn::turn;

/// The notes of a report of what `step` does in the recorded ones of some steps.
fn notes(profiler: TensorProfiler, steps: u64, step: impl Fn(u64)) -> Vec<String> {
    let profiler = Arc::new(profiler.export_trace(false));
    let active = activate(profiler.clone());
    for number in 0..steps {
        step(number);
        profiler.step();
    }
    profiler.teardown(None);
    drop(active);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    report.header.notes
}

fn multiply() {
    let square = Tensor::ones([8, 8], FLOAT_CPU);
    drop(square.matmul(&square));
}

#[test]
fn who_asks_for_ops_and_memory_and_gets_none_is_told_why() {
    let _turn = turn();
    let told = |notes: &[String], what: &str| notes.iter().any(|note| note.starts_with(what));
    let profiler = || TensorProfiler::new().profile_memory(true);

    // Only before the recorded steps, which are the third to the fifth.
    let outside = notes(profiler(), 6, |number| {
        if number == 0 {
            multiply()
        }
    });
    const OPS: &str = "there are no ops: libtorch would have told of them, but none ran";
    assert!(told(&outside, OPS), "{outside:#?}");
    assert!(told(&outside, "there is no memory"), "{outside:#?}");

    let inside = notes(profiler(), 6, |_| multiply());
    assert_eq!(inside, [""; 0]);

    let short = notes(profiler(), 2, |_| multiply());
    assert!(told(&short, "the schedule asks for 5 steps and the run had 2"), "{short:#?}");
    assert!(!told(&short, "there are no ops"), "{short:#?}");
}
