//! Tests that every track nests, independent of the program's behaviour.

use mlprof_core::{Action, Profiler, ProfilerExt, TensorProfiler};
use proptest::prelude::*;

use crate::parsed::Trace;
use crate::recorded::{action, op, trace};

/// Operation of a program on one of two threads.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Start(usize),
    Stop(usize),
    Step,
}

fn deed() -> impl Strategy<Value = Deed> {
    prop_oneof![
        4 => (0_usize..6).prop_map(Deed::Start),
        4 => (0_usize..6).prop_map(Deed::Stop),
        1 => Just(Deed::Step),
    ]
}

fn name(number: usize) -> Action {
    match number % 2 {
        0 => Action::op(&format!("op {number}")),
        _ => Action::new(&format!("action {number}")),
    }
}

/// Performs the operations. Returns the number of scopes closed by a `Stop`; the others stay open.
fn perform(profiler: &TensorProfiler, deeds: &[Deed]) -> usize {
    let mut open = Vec::new();
    for deed in deeds {
        match *deed {
            Deed::Start(number) => {
                open.push(number);
                profiler.start(name(number));
            }
            Deed::Stop(number) => {
                if let Some(position) = open.iter().rposition(|open| *open == number) {
                    open.remove(position);
                }
                profiler.stop(name(number)).expect("never fails");
            }
            Deed::Step => profiler.step(),
        }
    }
    open.len()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn guards_may_leak_and_overtake_each_other(
        here in prop::collection::vec(deed(), 0..60),
        there in prop::collection::vec(deed(), 0..30),
    ) {
        let started = |deeds: &[Deed]| deeds.iter().filter(|deed| matches!(deed, Deed::Start(_))).count();
        let mut left_there = 0;
        let text = trace(|profiler| {
            std::thread::scope(|scope| {
                let other = scope.spawn(|| perform(profiler, &there));
                perform(profiler, &here);
                left_there = other.join().expect("no panic");
            });
        });
        let trace = Trace::of(&text);
        // Scopes that another thread has open at the end are counted instead.
        prop_assert_eq!(trace.slices().len(), started(&here) + started(&there) - left_there);
        let still_open = trace.all["mlprof"]["scopes_open_on_other_threads"].as_u64();
        prop_assert_eq!(still_open, Some(left_there as u64));
    }
}

#[test]
fn scopes_that_outlive_their_parent_have_their_own_track() {
    let text = trace(|profiler| {
        let (outer, leaked) = (Action::new("outer"), Action::new("leaked"));
        profiler.start(outer);
        profiler.start(leaked);
        op(profiler, "inside", || {});
        profiler.stop(outer).expect("never fails");
        action(profiler, "later", || {});
        profiler.stop(leaked).expect("never fails");
        profiler.start(Action::new("unfinished"));
    });
    let trace = Trace::of(&text);
    let [outer, leaked, later] = ["outer", "leaked", "later"].map(|name| trace.slice(name));
    assert_eq!(outer.track, later.track);
    assert_ne!(outer.track, leaked.track);
    assert_eq!(leaked.args["overlaps"], true);
    assert_eq!(outer.args["overlaps"], serde_json::Value::Null);
    assert_eq!(trace.slice("unfinished").args["unfinished"], true);
    let names = trace.track_names();
    assert_eq!(names[&leaked.track], format!("{} (overlapping)", names[&outer.track]));
    // Numbers of additional tracks are never those of threads.
    assert!(leaked.track.1 > 1 << 22);
}

#[test]
fn more_crossing_scopes_than_tracks_become_instants() {
    let actions: Vec<Action> = (0..600).map(|n| Action::new(&format!("crossing {n}"))).collect();
    let text = trace(|profiler| {
        actions.iter().for_each(|action| profiler.start(*action));
        for action in &actions {
            profiler.stop(*action).expect("never fails");
        }
    });
    let trace = Trace::of(&text);
    let slices = trace.slices().len();
    assert_eq!(slices, 256);
    let instants: Vec<_> = trace.of_phase("i").collect();
    assert_eq!(instants.len() + slices, actions.len());
    assert!(instants.iter().all(|instant| instant["args"]["dur"].as_f64() > Some(0.0)));
}
