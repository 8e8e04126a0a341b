//! Steps that the trainer reports to its profiler.

use std::sync::{Arc, Mutex};

use mlprof_core::tensor::{Cycle, Schedule, Track};
use mlprof_core::{ActionKind, TensorProfiler};

use crate::toy::{Triple, inputs, trainer};

/// Names of all events of the cycles, and their step numbers.
#[derive(Default)]
struct Seen {
    steps: Vec<u32>,
    names: Vec<&'static str>,
}

fn watched(schedule: Schedule) -> (TensorProfiler, Arc<Mutex<Seen>>) {
    let seen = Arc::new(Mutex::new(Seen::default()));
    let keep = seen.clone();
    let profiler = TensorProfiler::new().schedule(schedule);
    let profiler = profiler.on_trace_ready(move |cycle: &Cycle| {
        let mut seen = keep.lock().expect("no panic");
        for event in cycle.tracks().iter().flat_map(Track::events) {
            match event.action.kind() {
                ActionKind::Step => seen.steps.push(event.sequence),
                _ => seen.names.push(event.action.name()),
            }
        }
    });
    (profiler, seen)
}

/// Trains 3 epochs of 7 batches. Each epoch is followed by a validation of 4 batches, and the
/// sanity check has 2.
#[test]
fn every_training_batch_is_a_step_and_no_other_is() {
    let every_step = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let (profiler, seen) = watched(every_step);
    let mut trainer = trainer().profiler(profiler);
    let outcome = trainer.fit(&mut Triple::default(), &inputs(7), Some(&inputs(4)));
    assert_eq!(outcome.expect("trained").steps, 21);
    let seen = seen.lock().expect("no panic");
    // The first step begins with the stage, and the sanity check splits it in two. A further step
    // has begun after the last batch, but no batch belongs to it.
    assert_eq!(seen.steps, [0].into_iter().chain(0..21).collect::<Vec<u32>>());
    let count = |name: &str| seen.names.iter().filter(|known| known.ends_with(name)).count();
    assert_eq!(count("run_training_batch"), 21);
    assert_eq!(count("validation_step") + count("val_next") + count("on_validation_start"), 0);
}

#[test]
fn every_test_batch_is_a_step() {
    let (profiler, seen) = watched(Schedule::new().wait(1).warmup(1).active(2).repeat(0));
    let mut trainer = trainer().profiler(profiler);
    trainer.test(&mut Triple::default(), &inputs(6)).expect("tested");
    assert_eq!(seen.lock().expect("no panic").steps, [2, 3]);
}
