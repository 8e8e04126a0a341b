//! Programs as users write them. They must compile and run.

#[allow(dead_code, reason = "other tests need the rest")]
#[path = "loop/toy.rs"]
mod toy;

use std::sync::Arc;
use std::thread;

use mlprof_core::{Action, Profiler, ProfilerExt, SimpleProfiler};
use mlprof_train::{Trainer, TrainerState};

use toy::{OnHooks, Triple, inputs, trainer};

/// Model with profilers as fields. Modules of burn and tch must be `Debug`, so profilers must be,
/// too.
#[derive(Debug)]
#[allow(dead_code, reason = "only printed")]
struct Model {
    profiler: Arc<dyn Profiler>,
    boxed: Box<dyn Profiler>,
}

#[derive(Debug)]
#[allow(dead_code, reason = "only printed")]
struct Generic<P: Profiler> {
    profiler: P,
}

#[test]
fn a_model_that_keeps_its_profiler_is_debug() {
    let model = Model {
        profiler: Arc::new(SimpleProfiler::new()),
        boxed: Box::new(SimpleProfiler::new().measure_cpu()),
    };
    let expected = "Model { profiler: SimpleProfiler, boxed: SimpleProfiler }";
    assert_eq!(format!("{model:?}"), expected);
    let generic = Generic { profiler: SimpleProfiler::new() };
    assert_eq!(format!("{generic:?}"), "Generic { profiler: SimpleProfiler }");
}

#[test]
fn a_name_may_be_borrowed_from_anywhere() {
    fn measured(profiler: &dyn Profiler, name: &str) {
        let _scope = profiler.profile(name);
    }
    let profiler = SimpleProfiler::new();
    for layer in 0..3 {
        measured(&profiler, &format!("layer {layer}"));
        measured(&profiler, "model");
    }
    let report = profiler.snapshot();
    let calls =
        |name: &str| report.actions.iter().find(|row| row.action == name).map(|row| row.calls);
    assert_eq!(["layer 0", "layer 2", "model"].map(calls), [Some(1), Some(1), Some(3)]);
    assert_eq!(Action::from(String::from("model").as_str()), Action::from("model"));
}

#[test]
fn a_trainer_takes_a_boxed_profiler() {
    let profiler: Box<dyn Profiler> = Box::new(SimpleProfiler::new());
    let mut trainer = Trainer::new().profiler(profiler).progress_bar(false);
    trainer.predict(&mut Triple::default(), &inputs(1)).expect("predicted");
}

#[test]
fn a_step_may_log_and_stop_while_a_scope_is_open() {
    let step = |_hook: &str, trainer: &mut TrainerState| {
        let _scope = trainer.profiler().profile("my_custom_action");
        trainer.log("loss", 0.5);
        trainer.stop("enough");
    };
    let mut trainer = trainer().callback(OnHooks(step));
    let outcome = trainer.fit(&mut Triple::default(), &inputs(3), None).expect("trained");
    assert_eq!(outcome.metrics.get("loss"), Some(&0.5));
}

#[test]
fn a_trainer_that_is_made_here_runs_there() {
    let mut trainer = trainer().max_epochs(1).callback(OnHooks(|_: &str, _: &mut TrainerState| {}));
    let fit = move || trainer.fit(&mut Triple::default(), &inputs(3), None);
    let outcome = thread::spawn(fit).join().expect("no panic").expect("trained");
    assert_eq!(outcome.steps, 3);
}
