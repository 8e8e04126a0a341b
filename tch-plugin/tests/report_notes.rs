//! Checks that a report notes the reason if no ops of libtorch were recorded.

mod turn;

use std::sync::Arc;

use mlprof_core::Report;
use mlprof_tch::prelude::*;
use tch::{Device, Tensor, kind::FLOAT_CPU, nn};
use turn::turn;

/// Returns the notes of a report about the recorded steps of `step`.
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
fn notes_explain_missing_ops_and_memory() {
    let _turn = turn();
    let told = |notes: &[String], what: &str| notes.iter().any(|note| note.starts_with(what));
    let profiler = || TensorProfiler::new().profile_memory(true);

    // The ops run only before the recorded steps, which are the third to the fifth.
    let outside = notes(profiler(), 6, |number| {
        if number == 0 {
            multiply()
        }
    });
    const OPS: &str = "there are no ops: libtorch reports them, but none ran";
    assert!(told(&outside, OPS), "{outside:#?}");
    assert!(told(&outside, "there is no memory"), "{outside:#?}");

    let inside = notes(profiler(), 6, |_| multiply());
    assert_eq!(inside, [""; 0]);

    let short = notes(profiler(), 2, |_| multiply());
    assert!(told(&short, "the schedule needs 5 steps and the run had 2"), "{short:#?}");
    assert!(!told(&short, "there are no ops"), "{short:#?}");
}

#[test]
fn reports_say_what_libtorch_is_and_trains_on() {
    let _turn = turn();
    let threads = tch::get_num_threads();
    tch::set_num_threads(1);
    let store = nn::VarStore::new(Device::Cpu);
    let _optimizer = TchOptimizer::new(nn::Sgd::default(), &store, 0.1).expect("made");
    let profiler = Arc::new(SimpleProfiler::new());
    drop(activate(profiler.clone()));
    tch::set_num_threads(threads);
    let Some(Report::Simple(report)) = profiler.report() else { panic!("no report") };
    let [known] = &report.header.frameworks[..] else { panic!("{:?}", report.header) };
    assert_eq!(known.name, "tch");
    let library = known.library.as_deref().expect("its headers are there");
    assert!(library.starts_with("libtorch 2."), "{library}");
    assert_eq!(known.has("mkl"), tch::utils::has_mkl());
    assert_eq!((known.threads, &known.devices[..]), (Some(1), &["cpu".to_owned()][..]));
}
