//! Rerun of a batch that a profiler requests.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use mlprof_core::{Action, MultiProfiler, NeverStarted, Observation, Profiler, SimpleProfiler};
use mlprof_train::{FitOutcome, TrainError};

use crate::toy::{Triple, Trouble, inputs, trainer};

/// Requests a rerun of the third batch, and may then end the training.
#[derive(Default)]
struct Curious {
    forwards: AtomicU64,
    stops: bool,
    has_begun: AtomicU64,
    ended: Mutex<Vec<Option<String>>>,
}

impl Curious {
    fn is_third(&self) -> bool {
        self.forwards.load(Ordering::Relaxed) == 3
    }
}

impl Profiler for Curious {
    fn start(&self, action: Action) {
        let is_forward = action.name().ends_with("training_step");
        self.forwards.fetch_add(u64::from(is_forward), Ordering::Relaxed);
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::Control(control) if self.is_third() => {
                if control.can_rerun() && self.has_begun.fetch_add(1, Ordering::Relaxed) == 0 {
                    control.rerun_batch();
                }
                if self.stops {
                    control.stop("enough was seen");
                }
            }
            Observation::RerunEnd(failure) => {
                self.ended.lock().expect("a list").push(failure.map(str::to_owned));
            }
            _ => {}
        }
    }
}

fn fit(triple: &mut Triple, stops: bool) -> (Arc<Curious>, Result<FitOutcome, TrainError>) {
    let curious = Arc::new(Curious { stops, ..Curious::default() });
    let both = [Arc::new(SimpleProfiler::new()) as Arc<dyn Profiler>, curious.clone()];
    let mut trainer = trainer().profiler(Arc::new(MultiProfiler::new(both)));
    let outcome = trainer.fit(triple, &inputs(5), None);
    (curious, outcome)
}

#[test]
fn a_batch_that_is_run_again_changes_nothing_of_what_is_learned() {
    let (mut plain, mut seen) = (Triple::default(), Triple::default());
    let expected = trainer().fit(&mut plain, &inputs(5), None).expect("trained");
    let (curious, outcome) = fit(&mut seen, false);
    let outcome = outcome.expect("trained");
    assert_eq!(*curious.ended.lock().expect("a list"), [None]);
    assert_eq!((plain.losses.len(), seen.losses.len()), (15, 16), "one forward more");
    assert_eq!(seen.losses[2], seen.losses[3], "from the same parameters");
    assert_eq!(seen.weight.get(), plain.weight.get());
    assert_eq!(seen.gradients, plain.gradients);
    assert_eq!(outcome.metrics, expected.metrics, "logged once");
}

#[test]
fn it_is_run_backward_again_where_the_training_ends() {
    let (mut plain, mut seen) = (Triple::default(), Triple::default());
    let expected = trainer().max_epochs(1).fit(&mut plain, &inputs(3), None).expect("trained");
    assert_eq!(expected.steps, 3);
    let (curious, outcome) = fit(&mut seen, true);
    let error = format!("{:?}", outcome.expect_err("it is stopped"));
    assert!(error.ends_with("at batch 2 of epoch 0: enough was seen"), "{error}");
    assert_eq!(*curious.ended.lock().expect("a list"), [None]);
    assert_eq!(seen.weight.gradient(), plain.gradients[2], "that of one pass, and not of two");
}

#[test]
fn an_error_of_the_second_time_does_not_end_the_training() {
    let mut triple = Triple { trouble: Some((3, Trouble::Error)), ..Triple::default() };
    let (curious, outcome) = fit(&mut triple, false);
    assert_eq!(outcome.expect("trained").steps, 15);
    let ended = curious.ended.lock().expect("a list");
    assert_eq!(*ended, [Some("the tensor has the wrong shape".to_owned())]);
}
