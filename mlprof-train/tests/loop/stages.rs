//! Stages and steps, as a custom profiler receives them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mlprof_core::{
    Action, Inner, MultiProfiler, NeverStarted, Observation, Profiler, RunContext, SimpleProfiler,
    Stage,
};

use crate::toy::{Triple, inputs, trainer};

/// Records the calls for stages and steps, and counts actions until the stage ends.
#[derive(Default)]
struct Recorder {
    calls: Mutex<Vec<String>>,
    counts: Mutex<BTreeMap<&'static str, u64>>,
    last_counts: Mutex<BTreeMap<&'static str, u64>>,
    separates: Option<SimpleProfiler>,
}

impl Recorder {
    fn record(&self, call: impl Into<String>) {
        self.calls.lock().expect("calls").push(call.into());
    }

    fn calls(&self, name: &str) -> Vec<String> {
        let calls = self.calls.lock().expect("calls");
        calls.iter().filter(|call| call.starts_with(name)).cloned().collect()
    }

    fn count(&self, ending: &str) -> u64 {
        let counts = self.last_counts.lock().expect("counts");
        counts.iter().filter(|(name, _)| name.ends_with(ending)).map(|(_, count)| count).sum()
    }
}

impl Profiler for Recorder {
    fn start(&self, _action: Action) {}

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        *self.counts.lock().expect("counts").entry(action.name()).or_default() += 1;
        Ok(())
    }

    fn observe(&self, observation: &Observation<'_>) {
        if matches!(observation, Observation::StepEnd) {
            self.record("step");
        }
    }

    /// Forwards to a Simple profiler, if there is one. The Simple profiler reports the sanity check
    /// separately, so a wrapper around it also does.
    fn inner(&self) -> Inner<'_> {
        self.separates.as_ref().map_or(Inner::NONE, |simple| Inner::of(simple))
    }

    fn setup(&self, stage: Stage, _run: &RunContext) {
        self.record(format!("setup {stage}"));
    }

    fn teardown(&self, stage: Option<Stage>) {
        self.record(format!("teardown {stage:?}"));
        let counts = std::mem::take(&mut *self.counts.lock().expect("counts"));
        *self.last_counts.lock().expect("counts") = counts;
    }
}

/// Trains two epochs of 7 batches. Each epoch is followed by a validation of 4 batches, and the
/// sanity check has 2.
fn fit(profiler: Arc<dyn Profiler>) {
    let mut trainer = trainer().max_epochs(2).profiler(profiler);
    trainer.fit(&mut Triple::default(), &inputs(7), Some(&inputs(4))).expect("trained");
}

#[test]
fn a_fit_is_one_stage_whose_steps_are_its_training_batches() {
    let recorder = Arc::new(Recorder::default());
    fit(recorder.clone());
    assert_eq!(recorder.calls("setup"), ["setup fit"]);
    assert_eq!(recorder.calls("teardown"), ["teardown None"]);
    assert_eq!(recorder.calls("step").len(), 14);
    // As with Lightning's profilers, the sanity check is part of the fit.
    assert_eq!(recorder.count("validation_step"), 10);
    for once in ["prepare_data", ".setup", "configure_optimizers", "on_fit_start"] {
        assert_eq!(recorder.count(once), 1, "{once}");
    }
}

#[test]
fn a_profiler_that_asks_has_the_sanity_check_as_a_stage() {
    let recorder =
        Arc::new(Recorder { separates: Some(SimpleProfiler::new()), ..Recorder::default() });
    fit(recorder.clone());
    assert_eq!(recorder.calls("setup"), ["setup fit", "setup sanity_check"]);
    assert_eq!(recorder.calls("teardown"), ["teardown Some(SanityCheck)", "teardown None"]);
    assert_eq!(recorder.calls("step").len(), 14);
}

#[test]
fn each_part_of_several_has_the_stages_that_it_asked_for() {
    let (plain, separating) = (Arc::new(Recorder::default()), SimpleProfiler::new());
    let separating = Arc::new(separating);
    let parts: [Arc<dyn Profiler>; 2] = [plain.clone(), separating.clone()];
    fit(Arc::new(MultiProfiler::new(parts)));
    assert_eq!(plain.calls("setup"), ["setup fit"]);
    assert_eq!(plain.calls("teardown"), ["teardown None"]);
    let report = separating.snapshot();
    let calls = |sub_stage| {
        let steps = report.actions.iter().filter(|row| row.action.ends_with(".validation_step"));
        steps.filter(|row| row.sub_stage == sub_stage).map(|row| row.calls).sum::<u64>()
    };
    assert_eq!((calls(None), calls(Some(Stage::SanityCheck))), (8, 2));
}

#[test]
fn batches_of_an_evaluation_of_its_own_are_its_steps() {
    let recorder = Arc::new(Recorder::default());
    let mut trainer = trainer().profiler(recorder.clone());
    trainer.validate(&mut Triple::default(), &inputs(4)).expect("validated");
    trainer.test(&mut Triple::default(), &inputs(3)).expect("tested");
    trainer.predict(&mut Triple::default(), &inputs(2)).expect("predicted");
    assert_eq!(recorder.calls("setup"), ["setup validate", "setup test", "setup predict"]);
    assert_eq!(recorder.calls("step").len(), 4 + 3 + 2);
}
