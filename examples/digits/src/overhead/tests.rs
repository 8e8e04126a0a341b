//! Tests of the whole harness on an empty loop.

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};

use mlprof_core::{Action, NeverStarted, ProfilerExt};

use super::*;

const FETCH: &str = "fetch";

/// Runs an epoch of `steps` steps with 3 scopes each.
fn toy_epoch(profiler: &dyn Profiler, steps: usize) {
    let _epoch = profiler.profile("epoch");
    for _ in 0..steps {
        drop(profiler.profile(FETCH));
        let _step = profiler.profile("step");
        drop(profiler.profile("forward"));
    }
}

/// Counts the events that it receives.
#[derive(Default)]
struct Heard(AtomicUsize);

impl Profiler for Heard {
    fn start(&self, _action: Action) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        self.0.fetch_add(1000, Ordering::Relaxed);
        Ok(())
    }
}

#[test]
fn scopes_of_steps_are_counted_and_no_others() {
    let counting = Counting::new(FETCH);
    toy_epoch(&counting, 10);
    assert_eq!(counting.per_step(), 3.0);
}

#[test]
fn every_other_step_is_recorded_as_a_whole() {
    let heard = Arc::new(Heard::default());
    toy_epoch(&EveryOther::new(FETCH, heard.clone()), 6);
    // The recorded steps are 0, 3 and 4 of 6.
    assert_eq!(heard.0.load(Ordering::Relaxed), 9 + 9000);
}

#[test]
fn added_cost_of_recorded_steps_is_measured() {
    let round = Cell::new(0);
    let epoch = |profiler: Arc<dyn Profiler>| {
        round.set(round.get() + 1);
        toy_epoch(&*profiler, 40);
        let steps = (0..39).map(|step| {
            let recorded = if profilers::is_recorded(step) { 1010 } else { 1000 };
            Duration::from_micros(recorded)
        });
        Ok(steps.collect())
    };
    let subject = Subject {
        framework: "toy",
        step_begins: FETCH,
        epoch: &epoch,
        tells_of_ops: false,
        besides: &[],
    };
    let options = OverheadOptions {
        rounds: 6,
        batch_size: 1,
        clock: Clock::Wall,
        numerics: false,
        json: None,
    };
    let results = subject.measure(&options).expect("nothing can fail");
    assert_eq!(round.get(), 1 + 6 * 5, "one to count, five kinds in each round");
    assert_eq!((results.scopes_per_step, results.steps), (3.0, 6 * 35));
    assert!((results.neighbours.median - 0.01).abs() < 1e-9);
    let names: Vec<_> = results.epochs.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["hooks only", "simple"]);
    // All epochs have the same length.
    assert!(results.epochs.iter().all(|(_, estimate)| estimate.median == 0.0));
    assert!(results.ns_per_scope > 0.0);
}

#[test]
fn an_epoch_too_short_to_compare_is_refused() {
    let epoch = |_| Ok(vec![Duration::from_millis(1); 5]);
    let subject = Subject {
        framework: "toy",
        step_begins: FETCH,
        epoch: &epoch,
        tells_of_ops: false,
        besides: &[],
    };
    let options = OverheadOptions {
        rounds: 1,
        batch_size: 1,
        clock: Clock::Wall,
        numerics: false,
        json: None,
    };
    let error = subject.measure(&options).expect_err("refused").to_string();
    assert!(error.contains("5 full batches") && error.contains("smaller batch"), "{error}");
}
