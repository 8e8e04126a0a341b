//! Tests that profilers wrapping others lose no event.

use std::sync::{Arc, Mutex};

use super::*;
use crate::hook::OpStart;
use crate::{AdvancedProfiler, MultiProfiler, SimpleProfiler, TensorProfiler};
use mlprof_events::{RegionSinks, TrainingControl};

/// A wrapper with only the required methods.
struct Wrapper<P>(P);

impl<P: Profiler> Profiler for Wrapper<P> {
    fn start(&self, action: Action) {
        self.0.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::of(&self.0)
    }
}

/// Records the calls it receives. It requests the end of the training and a rerun.
#[derive(Default)]
struct Witness(Mutex<Vec<String>>);

impl Witness {
    fn note(&self, call: impl Into<String>) {
        self.0.lock().expect("calls").push(call.into());
    }
}

impl Profiler for Witness {
    fn start(&self, action: Action) {
        self.note(format!("start {}", action.name()));
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.note(format!("stop {}", action.name()));
        Ok(())
    }

    fn interest(&self) -> Interest {
        Interest::ACTIONS | Interest::OPS
    }

    fn start_op(&self, op: &OpStart<'_>) {
        self.note(format!("op {}", op.action.name()));
    }

    fn observe(&self, observation: &Observation<'_>) {
        self.note(match observation {
            Observation::StepEnd => "step",
            Observation::StepsPaused => "pause",
            Observation::StepsResumed => "resume",
            Observation::Note(_) => "note",
            Observation::RerunEnd(_) => "rerun",
            Observation::Unattributed(_) => "unattributed",
            Observation::RegionOpened(_) => "region",
            Observation::Control(control) => {
                control.stop("enough");
                control.rerun_batch();
                "control"
            }
            _ => "?",
        });
    }

    fn setup(&self, stage: Stage, _run: &RunContext) {
        self.note(format!("setup {stage}"));
    }

    fn teardown(&self, _stage: Option<Stage>) {
        self.note("teardown");
    }

    fn summary(&self) -> String {
        "a summary\n".to_owned()
    }
}

#[test]
fn every_message_passes_through_a_wrapper_that_knows_none_of_them() {
    let witness = Arc::new(Witness::default());
    let guarded = crate::guarded::guarded(witness.clone());
    let nested = Wrapper(Wrapper(MultiProfiler::new([guarded, Arc::new(SimpleProfiler::new())])));
    let profiler = crate::guarded::guarded(Arc::new(nested));
    assert_eq!(profiler.interest(), Interest::ACTIONS | Interest::OPS);
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("scope"));
    profiler.start_op(&OpStart::new(Action::of_kind(crate::ActionKind::Op, "add", None)));
    profiler.step();
    profiler.pause();
    profiler.resume();
    profiler.observe(&Observation::Note("a note"));
    profiler.observe(&Observation::RerunEnd(None));
    profiler.observe(&Observation::Unattributed(&Arc::default()));
    assert!(profiler.region_sink().is_some(), "the Simple profiler's");
    assert_eq!(profiler.reason_to_stop().as_deref(), Some("enough"));
    let control = TrainingControl::with_rerun();
    profiler.observe(&Observation::Control(&control));
    assert!(control.wants_rerun());
    profiler.teardown(None);
    let calls = witness.0.lock().expect("calls").join(", ");
    assert_eq!(
        calls,
        "setup fit, start scope, stop scope, op add, step, pause, resume, note, rerun, unattributed, \
         region, control, control, teardown"
    );
    assert!(profiler.summary().starts_with("a summary\n"));
    assert!(profiler.parts().is_empty(), "the wrapper is not taken apart");
}

#[test]
fn queried_methods_work_through_a_wrapper() {
    let simple: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
    let tensor: Arc<dyn Profiler> = Arc::new(Wrapper(Witness::default()));
    let both = Arc::new(MultiProfiler::new([simple.clone(), tensor.clone()]));
    let profiler: Arc<dyn Profiler> = Arc::new(WrapperOf(both.clone()));
    let action = Action::new("open");
    assert!(!is_open(&*profiler, action));
    let scope = simple.profile(action);
    assert!(is_open(&*profiler, action));
    drop(scope);
    for (other, passes_on) in [
        (&simple, true),
        (&tensor, true),
        (&profiler, true),
        (&crate::guarded::guarded(tensor.clone()), true),
    ] {
        assert_eq!(passes_on_to(&*profiler, &**other), passes_on);
    }
    let stranger: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
    assert!(!passes_on_to(&*profiler, &*stranger));
    assert!(profiler.separates_sanity_check() && !tensor.separates_sanity_check());
    // A profiler that records only later steps is also enabled.
    let schedule = crate::tensor::Schedule::new().wait(9).warmup(0).active(1).repeat(1);
    let later = TensorProfiler::new().schedule(schedule);
    assert!(Wrapper(later).is_enabled());
    assert!(!Wrapper(crate::PassThroughProfiler).is_enabled());
    assert!(name_of(&*profiler).ends_with("WrapperOf"), "{}", name_of(&*profiler));
}

struct WrapperOf(Arc<MultiProfiler>);

impl Profiler for WrapperOf {
    fn start(&self, action: Action) {
        self.0.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::of(&*self.0)
    }
}

/// Appends a line to the report of the wrapped profiler.
struct Signed(SimpleProfiler);

impl Profiler for Signed {
    fn start(&self, action: Action) {
        self.0.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }

    fn summary(&self) -> String {
        format!("{}signed\n", self.0.summary())
    }

    fn inner(&self) -> Inner<'_> {
        Inner::of(&self.0)
    }
}

#[test]
fn the_report_of_a_wrapper_is_its_own_or_whole_that_of_the_profiler_inside() {
    let signed = Signed(SimpleProfiler::new());
    drop(signed.profile("batch"));
    let rendered = signed.render();
    assert!(rendered.text().ends_with("signed\n") && rendered.console_text().ends_with("signed\n"));
    assert!(rendered.report().is_some());
    let folder = tempfile::tempdir().expect("a folder");
    let advanced = AdvancedProfiler::new().dirpath(folder.path()).filename("kept").dump_stats(true);
    let wrapper = Wrapper(advanced);
    drop(wrapper.profile("batch"));
    wrapper.describe();
    let names = std::fs::read_dir(folder.path()).expect("a folder").flatten();
    let names: Vec<_> = names.map(|file| file.file_name().to_string_lossy().into_owned()).collect();
    assert!(names.iter().any(|name| name.ends_with(".txt")), "{names:?}");
    assert!(names.iter().any(|name| name.ends_with(".prof")), "{names:?}");
}

#[test]
fn a_region_has_the_sinks_of_all_profilers() {
    let both = MultiProfiler::new([
        Arc::new(SimpleProfiler::new()) as Arc<dyn Profiler>,
        Arc::new(AdvancedProfiler::new()),
        Arc::new(Witness::default()),
    ]);
    let sinks = RegionSinks::new();
    both.observe(&Observation::RegionOpened(&sinks));
    assert_eq!(sinks.into_inner().len(), 2);
}
