use std::sync::{Arc, Mutex};

use super::*;
use crate::{ProfilerExt, Session, hook, profile};

/// Summary of a cycle for tests. Names and steps are in the order of their ends.
#[derive(Debug, Default, Clone, PartialEq)]
struct Seen {
    steps: std::ops::Range<u64>,
    is_complete: bool,
    spans: Vec<u32>,
    names: Vec<String>,
    overlapping: Vec<String>,
    unfinished: Vec<String>,
}

#[derive(Default, Clone)]
struct Cycles(Arc<Mutex<Vec<Seen>>>);

impl Cycles {
    fn profiler(&self, schedule: Schedule) -> Arc<TensorProfiler> {
        let profiler = TensorProfiler::new().schedule(schedule);
        self.watch(profiler)
    }

    fn watch(&self, profiler: TensorProfiler) -> Arc<TensorProfiler> {
        let seen = self.0.clone();
        Arc::new(profiler.on_trace_ready(move |cycle| {
            seen.lock().expect("no panic").push(Seen::of(cycle));
        }))
    }

    fn all(&self) -> Vec<Seen> {
        self.0.lock().expect("no panic").clone()
    }
}

impl Seen {
    fn of(cycle: &Cycle) -> Self {
        let events: Vec<_> = cycle.tracks().iter().flat_map(Track::events).collect();
        let is_step = |event: &&Event| event.action.kind() == ActionKind::Step;
        let names = |wanted: fn(&Event) -> bool| {
            let others = events.iter().filter(|event| !is_step(event) && wanted(event));
            others.map(|event| event.action.name().to_owned()).collect()
        };
        Self {
            steps: cycle.steps.clone(),
            is_complete: cycle.is_complete,
            spans: events.iter().filter(is_step).map(|event| event.sequence).collect(),
            names: names(|_| true),
            overlapping: names(|event| event.overlaps),
            unfinished: names(|event| event.is_unfinished),
        }
    }
}

fn schedule(wait: u64, warmup: u64, active: u64) -> Schedule {
    Schedule::new().wait(wait).warmup(warmup).active(active)
}

#[test]
fn the_steps_of_the_schedule_are_recorded_and_no_others() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(1, 1, 2).repeat(2));
    for step in 0..10 {
        drop(profiler.profile(format!("step {step}")));
        profiler.step();
    }
    assert_eq!(profiler.step_num(), 10);
    let expected = |first: u64| Seen {
        steps: first..first + 2,
        is_complete: true,
        spans: vec![first as u32, first as u32 + 1],
        names: vec![format!("step {first}"), format!("step {}", first + 1)],
        ..Seen::default()
    };
    assert_eq!(cycles.all(), [expected(2), expected(6)]);
}

#[test]
fn every_step_may_be_a_cycle() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(0, 0, 1).repeat(3));
    for step in 0..5 {
        drop(profiler.profile(format!("step {step}")));
        profiler.step();
    }
    let seen = cycles.all();
    assert_eq!(
        seen.iter().map(|cycle| &cycle.names[0][..]).collect::<Vec<_>>(),
        ["step 0", "step 1", "step 2"]
    );
    assert_eq!([&seen[0].spans, &seen[1].spans], [&[0], &[1]]);
}

#[test]
fn a_stage_has_steps_and_cycles_of_its_own() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(0, 0, 2));
    for stage in [Stage::Fit, Stage::Test] {
        profiler.setup(stage, &RunContext::default());
        for step in 0..4 {
            drop(profiler.profile(format!("{stage} {step}")));
            profiler.step();
        }
        profiler.describe();
    }
    let names: Vec<_> = cycles.all().into_iter().map(|cycle| (cycle.names, cycle.spans)).collect();
    let expected = |stage: &str| (vec![format!("{stage} 0"), format!("{stage} 1")], vec![0, 1]);
    assert_eq!(names, [expected("fit"), expected("test")]);
}

#[test]
fn a_sanity_check_and_a_pause_disturb_no_step() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(0, 0, 3));
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    profiler.setup(Stage::SanityCheck, &run);
    for _ in 0..2 {
        drop(profiler.profile("sanity"));
        profiler.step();
    }
    profiler.teardown(Some(Stage::SanityCheck));
    for step in 0..3 {
        drop(profiler.profile(format!("step {step}")));
        profiler.step();
        profiler.pause();
        for _ in 0..2 {
            drop(profiler.profile("validation"));
            profiler.step();
        }
        profiler.resume();
    }
    profiler.describe();
    let seen = cycles.all();
    assert_eq!(seen.len(), 1);
    assert_eq!(seen[0].names, ["step 0", "step 1", "step 2"]);
    assert_eq!(seen[0].spans, [0, 1, 2]);
    assert!(seen[0].is_complete);
}

#[test]
fn a_pause_in_the_middle_of_a_step_cuts_its_span() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(0, 0, 1));
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("before"));
    profiler.pause();
    drop(profiler.profile("between"));
    profiler.resume();
    drop(profiler.profile("after"));
    profiler.step();
    let seen = cycles.all();
    assert_eq!(
        (&seen[0].names[..], &seen[0].spans[..]),
        (&["before".into(), "after".into()][..], &[0, 0][..])
    );
}

#[test]
fn a_run_that_ends_early_keeps_what_it_has() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(1, 0, 3));
    profiler.setup(Stage::Fit, &RunContext::default());
    for step in 0..2 {
        drop(profiler.profile(format!("step {step}")));
        profiler.step();
    }
    let open = profiler.profile("open");
    profiler.describe();
    drop(open);
    let seen = cycles.all();
    assert_eq!((seen.len(), seen[0].is_complete, seen[0].steps.clone()), (1, false, 1..2));
    assert_eq!(seen[0].names, ["step 1", "open"]);
    assert_eq!((&seen[0].unfinished[..], &seen[0].spans[..]), (&["open".to_owned()][..], &[1][..]));
}

#[test]
fn without_steps_the_first_one_is_all_there_is() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(0, 0, 1));
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("work"));
    profiler.describe();
    let seen = cycles.all();
    assert_eq!((&seen[0].names[..], seen[0].is_complete), (&["work".to_owned()][..], false));
    // A schedule that begins later also records these first steps.
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(5, 1, 1));
    profiler.setup(Stage::Fit, &RunContext::default());
    drop(profiler.profile("work"));
    profiler.step();
    profiler.describe();
    let seen = cycles.all();
    assert_eq!((&seen[0].names[..], seen[0].is_complete), (&["work".to_owned()][..], false));
    assert_eq!((seen.len(), seen[0].steps.clone()), (1, 0..1));
}

#[test]
fn without_a_schedule_the_stage_is_recorded_whole() {
    let cycles = Cycles::default();
    let profiler = cycles.watch(TensorProfiler::new().without_schedule());
    profiler.setup(Stage::Predict, &RunContext::default());
    for _ in 0..3 {
        drop(profiler.profile("step"));
        profiler.step();
    }
    profiler.describe();
    let seen = cycles.all();
    assert_eq!((seen.len(), seen[0].is_complete, seen[0].names.len()), (1, true, 3));
    assert!(seen[0].spans.is_empty());
}

#[test]
fn actions_across_the_end_of_a_step_nest_in_no_step() {
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(0, 0, 2));
    profiler.setup(Stage::Fit, &RunContext::default());
    let epoch = profiler.profile("epoch");
    drop(profiler.profile("step 0"));
    profiler.step();
    drop(profiler.profile("step 1"));
    drop(epoch);
    profiler.step();
    let seen = cycles.all();
    assert_eq!(seen[0].overlapping, ["epoch"]);
    assert_eq!(seen[0].names, ["step 0", "step 1", "epoch"]);
}

#[test]
fn a_step_that_began_in_an_epoch_that_ends_is_around_what_comes() {
    let events = Arc::new(Mutex::new(Vec::new()));
    let seen = events.clone();
    let profiler = TensorProfiler::new().schedule(schedule(0, 0, 2));
    let profiler = Arc::new(profiler.on_trace_ready(move |cycle| {
        let all = cycle.tracks().iter().flat_map(Track::events);
        let of = |event: Event| (event.action.name().to_owned(), event.depth, event.overlaps);
        seen.lock().expect("no panic").extend(all.map(of));
    }));
    profiler.setup(Stage::Fit, &RunContext::default());
    let epoch = profiler.profile("epoch");
    profiler.step();
    let while_it_ends = profiler.profile("while the epoch ends");
    drop(epoch);
    drop(while_it_ends);
    drop(profiler.profile("after the epoch"));
    profiler.step();
    let event = |name: &str, depth, overlaps| (name.to_owned(), depth, overlaps);
    let expected = [
        event("ProfilerStep", 0, false),
        event("epoch", 1, true),
        event("while the epoch ends", 1, false),
        event("after the epoch", 1, false),
        event("ProfilerStep", 0, false),
    ];
    assert_eq!(*events.lock().expect("no panic"), expected);
}

#[test]
fn guards_that_overtake_each_other_are_all_recorded() {
    let cycles = Cycles::default();
    let profiler = cycles.watch(TensorProfiler::new().without_schedule());
    let outer = profiler.profile("outer");
    let inner = profiler.profile("inner");
    let innermost = profiler.profile("innermost");
    drop(outer);
    drop(innermost);
    drop(inner);
    profiler.describe();
    let seen = cycles.all();
    assert_eq!(seen[0].names, ["outer", "innermost", "inner"]);
    assert_eq!(seen[0].overlapping, ["innermost", "inner"]);
}

#[test]
fn hooks_are_asked_only_while_something_is_recorded() {
    #[derive(Default)]
    struct Hook(Mutex<Vec<Interest>>);
    impl hook::Instrumentation for Hook {
        fn interest_changed(&self, interest: Interest) {
            self.0.lock().expect("no panic").push(interest);
        }
    }
    let source = Arc::new(Hook::default());
    let handle = hook::register(source.clone());
    let cycles = Cycles::default();
    let profiler = cycles.profiler(schedule(1, 0, 1));
    let before = source.0.lock().expect("no panic").len();
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    let op = Action::op("only_while_recorded");
    for _ in 0..3 {
        let scope = hook::OpScope::open(&OpStart::new(op));
        scope.into_iter().for_each(hook::OpScope::close);
        let _scope = profile!("only_while_recorded_action");
        profiler.step();
    }
    drop(session);
    let seen = cycles.all();
    assert_eq!(seen[0].names[0], "only_while_recorded");
    assert_eq!(seen[0].names.len(), 2, "{:?}", seen[0].names);
    // Tests in other files may have active profilers at the same time.
    let heard = source.0.lock().expect("no panic")[before..].to_vec();
    let wants = |interest: &Interest| interest.contains(Interest::OPS | Interest::SHAPES);
    assert!(heard.iter().any(wants) && heard.contains(&Interest::NONE), "{heard:?}");
    drop(handle);
}

#[test]
fn a_handler_that_panics_costs_its_trace_alone() {
    let profiler = TensorProfiler::new().schedule(schedule(0, 0, 1).repeat(2));
    let calls = Arc::new(Mutex::new(0));
    let count = calls.clone();
    let profiler = profiler.on_trace_ready(move |_| {
        *count.lock().expect("poisoned by nobody") += 1;
        panic!("on purpose");
    });
    for _ in 0..3 {
        drop(profiler.profile("work"));
        profiler.step();
    }
    assert_eq!(calls.lock().map(|calls| *calls).unwrap_or_else(|poison| *poison.into_inner()), 2);
}

#[test]
fn a_full_buffer_counts_what_it_drops() {
    let dropped = Arc::new(Mutex::new((Dropped::default(), 0)));
    let seen = dropped.clone();
    let profiler =
        TensorProfiler::new().without_schedule().max_events(2048).on_trace_ready(move |cycle| {
            *seen.lock().expect("no panic") = (cycle.dropped, cycle.event_count())
        });
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..5000 {
        drop(profiler.profile("work"));
    }
    profiler.describe();
    let (dropped, kept) = *dropped.lock().expect("no panic");
    assert_eq!((dropped.events, kept), (5000 - 2048, 2048));
}

#[test]
fn threads_record_side_by_side_and_may_die_in_the_middle() {
    let cycles = Cycles::default();
    let counted = Arc::new(Mutex::new((0, 0, 0)));
    let seen = counted.clone();
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        *seen.lock().expect("no panic") =
            (cycle.tracks().len(), cycle.event_count(), cycle.open_elsewhere);
    });
    drop(cycles);
    let profiler = Arc::new(profiler);
    profiler.setup(Stage::Fit, &RunContext::default());
    std::thread::scope(|threads| {
        for number in 0..64 {
            let profiler = profiler.clone();
            threads.spawn(move || {
                for _ in 0..3000 {
                    let _outer = profiler.profile("outer");
                    drop(profiler.profile("inner"));
                }
                if number % 2 == 0 {
                    std::mem::forget(profiler.profile("left open"));
                }
            });
        }
    });
    profiler.describe();
    assert_eq!(*counted.lock().expect("no panic"), (64, 64 * 6000, 32));
}

#[test]
fn two_profilers_share_a_thread() {
    let (one, other) = (Cycles::default(), Cycles::default());
    let first = one.watch(TensorProfiler::new().without_schedule());
    let second = other.watch(TensorProfiler::new().without_schedule());
    for _ in 0..3 {
        let _outer = first.profile("outer");
        drop(second.profile("inner"));
    }
    first.describe();
    second.describe();
    assert_eq!(one.all()[0].names, ["outer"; 3]);
    assert_eq!(other.all()[0].names, ["inner"; 3]);
}
