//! Tests of event forwarding to several profilers.

use std::sync::Mutex;
use std::sync::atomic::AtomicUsize;

use super::*;
use crate::ProfilerExt;
use crate::profiler::is_open;
use crate::{AdvancedProfiler, PassThroughProfiler, SimpleProfiler};

#[test]
fn each_part_hears_what_it_is_interested_in() {
    let (simple, advanced) = (Arc::new(SimpleProfiler::new()), Arc::new(AdvancedProfiler::new()));
    let both =
        MultiProfiler::of(vec![simple.clone(), advanced.clone(), Arc::new(PassThroughProfiler)]);
    let both = both.expect("three parts");
    let (action, function) =
        (Action::new("an_action"), Action::of_kind(ActionKind::Function, "a_function", None));
    both.start(action);
    both.start(function);
    assert!(is_open(&*both, action) && !is_open(&*both, Action::new("another")));
    assert!(
        is_open(&*simple, action) && !is_open(&*simple, function) && is_open(&*advanced, function)
    );
    both.stop(function).expect("started");
    both.stop(action).expect("started");
    assert_eq!(both.stop(action), Err(NeverStarted(action)));
    assert!(both.interest().contains(Interest::FUNCTIONS) && both.is_enabled());
    let actions: Vec<_> = simple.snapshot().actions.into_iter().map(|row| row.action).collect();
    assert_eq!(actions, ["an_action"]);
    assert!(advanced.summary().contains("a_function"));
    assert!(both.summary().contains("Num calls") && both.summary().contains("a_function"));
}

/// Counts starts and interest queries. Its interest can be changed.
struct Choosy {
    interest: Mutex<Interest>,
    asked: AtomicUsize,
    started: AtomicUsize,
}

impl Choosy {
    fn new() -> Arc<Self> {
        let interest = Mutex::new(Interest::ACTIONS);
        Arc::new(Self { interest, asked: AtomicUsize::new(0), started: AtomicUsize::new(0) })
    }
}

impl Profiler for Choosy {
    fn start(&self, _action: Action) {
        self.started.fetch_add(1, Ordering::Relaxed);
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }

    fn interest(&self) -> Interest {
        self.asked.fetch_add(1, Ordering::Relaxed);
        *self.interest.lock().expect("no panic")
    }
}

/// Scopes do not query interests, and do not reach a part that is no longer interested.
#[test]
fn parts_are_asked_again_when_they_say_so_and_not_before() {
    let (simple, choosy) = (Arc::new(SimpleProfiler::new()), Choosy::new());
    let both = MultiProfiler::new([simple.clone() as Arc<dyn Profiler>, choosy.clone()]);
    let action = Action::new("choosy");
    let scopes = |count| (0..count).for_each(|_| drop(both.profile(action)));
    let started = || choosy.started.load(Ordering::Relaxed);
    let asked = || choosy.asked.load(Ordering::Relaxed);
    scopes(100);
    // Concurrent tests may change the interest of their profilers.
    assert!(started() == 100 && asked() < 100, "asked {} times", asked());
    *choosy.interest.lock().expect("no panic") = Interest::NONE;
    mlprof_events::note_interest_change();
    scopes(10);
    assert_eq!(started(), 100);
    *choosy.interest.lock().expect("no panic") = Interest::ACTIONS;
    both.step();
    scopes(1);
    assert_eq!((started(), simple.snapshot().actions[0].calls), (101, 111));
}

/// Covers more parts than there are bits in a group, each with its own interest.
#[test]
fn many_parts_are_told_of_what_each_wants() {
    let parts: Vec<_> = (0..PARTS_OF_A_GROUP + 3).map(|_| Choosy::new()).collect();
    for (place, part) in parts.iter().enumerate() {
        let interest = [Interest::ACTIONS, Interest::FUNCTIONS, Interest::OPS][place % 3];
        *part.interest.lock().expect("no panic") = interest;
    }
    let all = MultiProfiler::new(parts.iter().map(|part| part.clone() as Arc<dyn Profiler>));
    let kinds = [ActionKind::Module, ActionKind::Span, ActionKind::Kernel];
    for (times, kind) in [1, 10, 100].into_iter().zip(kinds) {
        let action = Action::of_kind(kind, "many parts", None);
        (0..times).for_each(|_| drop(all.profile(action)));
    }
    let started: Vec<_> = parts.iter().map(|part| part.started.load(Ordering::Relaxed)).collect();
    assert_eq!(started, [1, 10, 100].repeat(5)[..parts.len()]);
}

/// A part without interest causes no calls, whether it comes first or second.
#[test]
fn one_of_a_pair_is_told_alone() {
    for simple_is_first in [true, false] {
        let mut pair: [Arc<dyn Profiler>; 2] =
            [Arc::new(SimpleProfiler::new()), Arc::new(PassThroughProfiler)];
        if !simple_is_first {
            pair.reverse();
        }
        let both = MultiProfiler::new(pair);
        let action = Action::new("one of a pair");
        both.start(action);
        assert!(is_open(&both, action));
        both.stop(action).expect("started");
        assert_eq!(both.stop(action), Err(NeverStarted(action)));
    }
}

/// Each profiler finds its thread-local table without a lookup, even if the two alternate.
#[test]
fn profilers_that_take_turns_look_for_their_tables_once() {
    let both = MultiProfiler::new([
        Arc::new(SimpleProfiler::new()) as Arc<dyn Profiler>,
        Arc::new(AdvancedProfiler::new()),
    ]);
    let action = Action::new("turns");
    let turns = |count: usize| {
        (0..count).for_each(|_| {
            both.start(action);
            both.stop(action).expect("it was started");
        });
        crate::recorder::attaches::count()
    };
    let first = turns(3);
    assert_eq!(turns(100), first);
}

#[test]
fn samples_of_devices_go_to_those_who_want_them() {
    let tensor = Arc::new(crate::TensorProfiler::new().without_schedule());
    let both =
        MultiProfiler::new([Arc::new(SimpleProfiler::new()) as Arc<dyn Profiler>, tensor.clone()]);
    both.setup(Stage::Fit, &RunContext::default());
    both.observe(&Observation::DeviceCounter(&mlprof_events::CounterSample {
        time: mlprof_events::Timestamp::now(),
        device: 1,
        counter: mlprof_events::DeviceCounter::Power,
        value: 250.0,
    }));
    tensor.teardown(None);
    assert_eq!(tensor.snapshot().device_counters[0].recording[0].mean, 250.0);
}

#[test]
fn one_is_itself_and_none_is_none() {
    assert!(MultiProfiler::of(Vec::new()).is_none());
    let one: Arc<dyn Profiler> = Arc::new(SimpleProfiler::new());
    let same = MultiProfiler::of(vec![one.clone()]).expect("one part");
    assert!(Arc::ptr_eq(&one, &same));
}

/// A profiler of the program that panics.
struct Panics;

impl Profiler for Panics {
    fn start(&self, _action: Action) {
        panic!("on purpose");
    }

    fn stop(&self, _action: Action) -> Result<(), NeverStarted> {
        Ok(())
    }
}

#[test]
fn a_panic_of_one_part_costs_that_part() {
    let simple = Arc::new(SimpleProfiler::new());
    let panics: Arc<dyn Profiler> = Arc::new(Panics);
    let both =
        MultiProfiler::new([panics.clone(), simple.clone(), guarded(panics.clone()), panics]);
    assert_eq!(both.parts().len(), 2, "guarded or not, it is told once");
    (0..3).for_each(|_| drop(both.profile("counted")));
    let rows = simple.snapshot().actions;
    assert_eq!(rows.iter().find(|row| row.action == "counted").map(|row| row.calls), Some(3));
}
