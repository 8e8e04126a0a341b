//! Tests that convert known trees to events and compare the resulting profile with the tree.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::fold::{Fold, Links};
use super::tree::{NOWHERE, PathTree};
use super::{GroupBy, Profile};
use crate::cycle::{Event, MemoryEvent};
use mlprof_events::clock::Rate;
use mlprof_events::{
    Action, ActionKind, Direction, MemoryChange, MemoryDevice, ShapeList, Timestamp,
};
use mlprof_report::internals::StepParts;

const NAMES: [&str; 4] = ["aten::a", "aten::b", "aten::c", "aten::d"];

/// A scope with the time before each of its children and at its end.
#[derive(Debug, Clone)]
struct Scope {
    name: usize,
    /// Set if the scope is dropped for lack of space.
    is_dropped: bool,
    children: Vec<(u64, Scope)>,
    rest: u64,
}

fn scopes() -> impl Strategy<Value = Vec<(u64, Scope)>> {
    let name = || (0..NAMES.len(), proptest::bool::weighted(0.15), 0..3_u64);
    let leaf = name().prop_map(|(name, is_dropped, rest)| Scope {
        name,
        is_dropped,
        children: Vec::new(),
        rest,
    });
    let scope = leaf.prop_recursive(6, 60, 5, move |inner| {
        let children = proptest::collection::vec((0..3_u64, inner), 0..5);
        (name(), children).prop_map(|((name, is_dropped, rest), children)| Scope {
            name,
            is_dropped,
            children,
            rest,
        })
    });
    proptest::collection::vec((0..3_u64, scope), 0..6)
}

/// Calls, total time and self time by path.
type Paths = BTreeMap<Vec<&'static str>, (u64, u64, i64)>;

/// Runs scopes and collects the events that a thread would record, and the expected result.
#[derive(Default)]
struct Run {
    now: u64,
    events: Vec<Event>,
    expected: Paths,
    path: Vec<&'static str>,
}

impl Run {
    /// Returns the total duration of the recorded scopes.
    fn all(&mut self, scopes: &[(u64, Scope)], depth: u16) -> u64 {
        let mut recorded = 0;
        for (before, scope) in scopes {
            self.now += before;
            recorded += self.one(scope, depth);
        }
        recorded
    }

    fn one(&mut self, scope: &Scope, depth: u16) -> u64 {
        let start = self.now;
        if !scope.is_dropped {
            self.path.push(NAMES[scope.name]);
        }
        let inside = self.all(&scope.children, depth + 1);
        self.now += scope.rest;
        if scope.is_dropped {
            return inside;
        }
        let duration = self.now - start;
        let entry = self.expected.entry(self.path.clone()).or_default();
        *entry = (entry.0 + 1, entry.1 + duration, entry.2 + duration as i64 - inside as i64);
        self.path.pop();
        self.events.push(event(NAMES[scope.name], start, self.now, depth));
        duration
    }
}

fn event(name: &str, start: u64, end: u64, depth: u16) -> Event {
    Event {
        action: Action::op(name),
        start: Timestamp::from_ticks(start),
        end: Timestamp::from_ticks(end),
        shapes: ShapeList::NONE,
        sequence: 0,
        forward_thread: 0,
        context: None,
        depth,
        direction: Direction::Forward,
        is_unfinished: false,
        overlaps: false,
    }
}

fn allocation(time: u64, bytes: i64) -> MemoryEvent {
    let change = MemoryChange {
        address: 0,
        bytes,
        total_allocated: 0,
        total_reserved: 0,
        device: MemoryDevice::Cpu,
    };
    MemoryEvent { time: Timestamp::from_ticks(time), change }
}

/// Returns a fold into `profile`, without links.
fn fold_into(profile: &mut Profile) -> Fold<'_> {
    Fold::new(&mut profile.tree, &mut profile.memory, Links::default())
}

fn fold(events: &[Event], memory: &[MemoryEvent]) -> Profile {
    let mut profile = Profile::default();
    let mut fold = fold_into(&mut profile);
    fold.track(events.iter().copied(), memory.iter().copied());
    profile
}

fn path(tree: &PathTree, mut id: u32) -> Vec<&'static str> {
    let mut path = Vec::new();
    while id != NOWHERE {
        let node = &tree.nodes[id as usize];
        path.push(node.key.action.name());
        id = node.key.parent;
    }
    path.reverse();
    path
}

fn paths(tree: &PathTree) -> Paths {
    let row = |(id, node): (usize, &super::tree::Node)| {
        let calls = node.calls;
        (path(tree, id as u32), (calls.count, calls.total, calls.own))
    };
    tree.nodes.iter().enumerate().map(row).collect()
}

fn roots_total(tree: &PathTree) -> u64 {
    let roots = tree.nodes.iter().filter(|node| node.key.parent == NOWHERE);
    roots.map(|node| node.calls.total).sum()
}

fn own_total(tree: &PathTree) -> i64 {
    tree.nodes.iter().map(|node| node.calls.own).sum()
}

proptest! {
    #[test]
    fn scopes_come_out_as_the_tree_that_they_were(scopes in scopes()) {
        let mut run = Run::default();
        run.all(&scopes, 0);
        let profile = fold(&run.events, &[]);
        // If a parent was dropped and no time passed, the parent of a scope is ambiguous. Only the
        // sums are checked in that case.
        if run.events.len() as u64 == count(&scopes) {
            prop_assert_eq!(&paths(&profile.tree), &run.expected);
        }
        prop_assert_eq!(roots_total(&profile.tree) as i64, own_total(&profile.tree));
        for node in &profile.tree.nodes {
            prop_assert!(node.calls.own >= 0, "{:?}", node);
        }
    }

    #[test]
    fn dropped_parents_leave_their_children_to_what_is_around(scopes in scopes()) {
        // Every gap is a tick longer, so that all times are different.
        fn stretch(scopes: &mut [(u64, Scope)]) {
            for (before, scope) in scopes {
                *before += 1;
                scope.rest += 1;
                stretch(&mut scope.children);
            }
        }
        let mut scopes = scopes;
        stretch(&mut scopes);
        let mut run = Run::default();
        run.all(&scopes, 0);
        let profile = fold(&run.events, &[]);
        prop_assert_eq!(&paths(&profile.tree), &run.expected);
    }

    #[test]
    fn memory_belongs_to_the_innermost_scope(
        scopes in scopes(),
        moments in proptest::collection::vec((0..120_u64, -9..9_i64), 0..20),
    ) {
        let mut run = Run::default();
        run.all(&scopes, 0);
        let mut moments = moments;
        moments.sort_unstable();
        // The times of changes lie between two ticks of the scopes, so that they never coincide
        // with the end of a scope.
        for event in &mut run.events {
            event.start = Timestamp::from_ticks(event.start.ticks() * 2);
            event.end = Timestamp::from_ticks(event.end.ticks() * 2);
        }
        let changes: Vec<_> =
            moments.iter().map(|(time, bytes)| allocation(time * 2 + 1, *bytes)).collect();
        let profile = fold(&run.events, &changes);
        let mut expected: BTreeMap<&str, (u64, u64)> = BTreeMap::new();
        for change in &changes {
            let is_open = |event: &&Event| event.start < change.time && change.time < event.end;
            let innermost = run.events.iter().filter(is_open).max_by_key(|event| event.depth);
            let name = innermost.map_or("[memory]", |event| event.action.name());
            let sum = expected.entry(name).or_default();
            let bytes = change.change.bytes;
            *if bytes >= 0 { &mut sum.0 } else { &mut sum.1 } += bytes.unsigned_abs();
        }
        let averages = profile.key_averages(&GroupBy::name(), Rate::now());
        for row in &averages.rows {
            let own = row.memory.iter().map(|part| (part.self_allocated_bytes, part.self_freed_bytes));
            let own = own.fold((0, 0), |sum, part| (sum.0 + part.0, sum.1 + part.1));
            prop_assert_eq!(own, expected.remove(row.name.as_str()).unwrap_or_default());
        }
        prop_assert!(expected.values().all(|sum| *sum == (0, 0)), "{:?}", expected);
    }

    #[test]
    fn rows_add_up_however_they_are_grouped(scopes in scopes()) {
        let mut run = Run::default();
        run.all(&scopes, 0);
        let profile = fold(&run.events, &[]);
        let rate = Rate::now();
        for group_by in [GroupBy::name(), GroupBy::name().stack(2).phase().module().input_shapes()] {
            let averages = super::averages::key_averages(&profile, group_by, rate);
            let total = averages.total_average();
            prop_assert_eq!(total.calls, run.events.len() as u64);
            let roots = rate.seconds(roots_total(&profile.tree));
            prop_assert!((total.self_cpu_seconds - roots).abs() <= 1e-12 * roots.max(1.0));
            for row in &averages.rows {
                prop_assert!(row.self_cpu_seconds <= row.cpu_seconds * (1.0 + 1e-9), "{:?}", row);
            }
        }
    }
}

fn count(scopes: &[(u64, Scope)]) -> u64 {
    scopes.iter().map(|(_, scope)| 1 + count(&scope.children)).sum()
}

#[test]
fn overlapping_events_are_not_parents_and_take_no_time() {
    // The order is: a opens, b opens inside it, a closes, c runs, b closes. All of them are inside
    // d.
    let overlapping = Event { overlaps: true, ..event("aten::b", 20, 80, 1) };
    let events = [
        event("aten::c", 25, 30, 3),
        event("aten::a", 10, 40, 1),
        event("aten::c", 50, 70, 2),
        overlapping,
        event("aten::d", 0, 100, 0),
    ];
    let profile = fold(&events, &[]);
    let expected: Paths = [
        (vec!["aten::d"], (1, 100, 50)),
        (vec!["aten::d", "aten::b"], (1, 60, 0)),
        (vec!["aten::d", "aten::c"], (1, 20, 20)),
        (vec!["aten::d", "aten::a"], (1, 30, 25)),
        (vec!["aten::d", "aten::a", "aten::c"], (1, 5, 5)),
    ]
    .into();
    assert_eq!(paths(&profile.tree), expected);
}

#[test]
fn a_call_inside_a_call_of_the_same_row_is_in_the_total_once() {
    let events = [
        event("aten::a", 30, 40, 2),
        event("aten::b", 20, 50, 1),
        event("aten::a", 10, 60, 0),
        event("aten::a", 70, 75, 0),
    ];
    let profile = fold(&events, &[allocation(35, 100), allocation(55, 11)]);
    let averages = profile.key_averages(&GroupBy::name(), Rate::now());
    let rate = Rate::now();
    let row = &averages.rows[0];
    assert_eq!((row.name.as_str(), row.calls), ("aten::a", 3));
    let ticks = |seconds: f64| (seconds / rate.seconds(1)).round() as u64;
    assert_eq!((ticks(row.cpu_seconds), ticks(row.self_cpu_seconds)), (55, 35));
    assert_eq!((ticks(row.first_seconds), row.is_top_level), (50, true));
    let rest = row.rest.expect("three calls");
    assert_eq!((ticks(rest.min_seconds), ticks(rest.max_seconds)), (5, 10));
    assert_eq!((row.cpu_memory_bytes, row.self_cpu_memory_bytes), (111, 111));
    assert_eq!(averages.rows[1].cpu_memory_bytes, 100, "what is inside b");
    assert_eq!(averages.rows[1].self_cpu_memory_bytes, 0);
}

#[test]
fn deep_recursion_does_not_overflow_any_stack() {
    let deepest = 100_000_u64;
    let events: Vec<_> = (0..deepest)
        .rev()
        .map(|depth| {
            let end = 2 * deepest - depth;
            event("aten::a", depth, end, depth.min(u64::from(u16::MAX)) as u16)
        })
        .collect();
    let profile = fold(&events, &[]);
    let averages = profile.key_averages(&GroupBy::name().stack(3), Rate::now());
    assert_eq!(averages.total_average().calls, deepest);
    assert_eq!(own_total(&profile.tree), 2 * deepest as i64, "one root");
}

/// A training step recorded by torch.
#[derive(serde::Deserialize)]
struct Recorded {
    names: Vec<String>,
    /// Thread, start, end and name, in the order of the ends.
    events: Vec<(u64, u64, u64, usize)>,
    /// Thread, time and bytes.
    memory: Vec<(u64, u64, i64)>,
    /// Name, calls, self and total time, total and self memory.
    rows: Vec<(String, u64, u64, u64, i64, i64)>,
}

#[test]
fn sums_over_a_step_that_torch_recorded_are_torchs() {
    let json = include_str!("../../tests/golden/recorded.json");
    let recorded: Recorded = serde_json::from_str(json).expect("the golden file");
    let mut profile = Profile::default();
    let mut fold = fold_into(&mut profile);
    let mut threads: Vec<u64> = recorded.events.iter().map(|event| event.0).collect();
    threads.extend(recorded.memory.iter().map(|change| change.0));
    threads.sort_unstable();
    threads.dedup();
    for thread in threads {
        let events: Vec<_> = recorded.events.iter().filter(|event| event.0 == thread).collect();
        let depth = |start: u64, end: u64, own: usize| {
            let around = |(place, other): (usize, &&(u64, u64, u64, usize))| {
                other.1 <= start && end <= other.2 && place > own
            };
            events.iter().enumerate().filter(|entry| around((entry.0, entry.1))).count() as u16
        };
        let events = events.iter().enumerate().map(|(place, (_, start, end, name))| {
            event(&recorded.names[*name], *start, *end, depth(*start, *end, place))
        });
        let events: Vec<_> = events.collect();
        let memory = recorded.memory.iter().filter(|change| change.0 == thread);
        let memory: Vec<_> = memory.map(|(_, time, bytes)| allocation(*time, *bytes)).collect();
        fold.track(events.into_iter(), memory.into_iter());
    }
    let averages = profile.key_averages(&GroupBy::name(), Rate::now());
    let rate = Rate::now();
    let ticks = |seconds: f64| (seconds / rate.seconds(1)).round() as u64;
    assert!(recorded.rows.len() > 30, "{} rows", recorded.rows.len());
    assert_eq!(averages.rows.len(), recorded.rows.len());
    for (name, calls, own, total, memory, own_memory) in &recorded.rows {
        let row = averages.rows.iter().find(|row| row.name == *name).expect("the same rows");
        let numbers = (row.calls, ticks(row.self_cpu_seconds), ticks(row.cpu_seconds));
        let near = |one: u64, other: u64| one.abs_diff(other) <= 1 + other / 1000;
        assert!(
            row.calls == *calls && near(numbers.1, *own) && near(numbers.2, *total),
            "{name}: {numbers:?} and torch {:?}",
            (calls, own, total)
        );
        let bytes = (row.cpu_memory_bytes, row.self_cpu_memory_bytes);
        assert_eq!(bytes, (*memory, *own_memory), "{name}");
    }
}

/// Tests a step that waits for a batch, has a layer in its forward pass, and runs the backward pass
/// inside the optimizer's step.
#[test]
fn a_steps_time_is_taken_apart_by_phase() {
    let of = |action: Action, start, end, depth| Event { action, ..event("", start, end, depth) };
    let step = |number: u32, start, end| Event {
        sequence: number,
        ..of(Action::of_kind(ActionKind::Step, "ProfilerStep", None), start, end, 1)
    };
    let named = |name: &str, start, end, depth| of(Action::new(name), start, end, depth);
    let layer = Action::of_kind(ActionKind::Module, "[module]Linear: head", None);
    let events = [
        event("aten::copy_", 11, 13, 3),
        named("[_TrainingEpochLoop].train_dataloader_next", 10, 14, 2),
        event("aten::mm", 21, 26, 5),
        of(layer, 20, 27, 4),
        named("training_step", 18, 30, 3),
        event("aten::mm", 33, 36, 4),
        named("backward", 31, 40, 3),
        named("all_reduce_gradients", 41, 44, 3),
        named("optimizer_step", 17, 45, 2),
        named("on_train_batch_end", 46, 49, 2),
        step(7, 10, 50),
        step(8, 50, 51),
        named("run_training_epoch", 0, 60, 0),
    ];
    let mut profile = Profile::default();
    let mut fold = fold_into(&mut profile);
    fold.track(events.iter().copied(), std::iter::empty());
    let steps = fold.steps.take(&(7..9));
    let parts =
        StepParts { data: 4, forward: 12, backward: 9, collective: 3, optimizer: 28 - 12 - 9 - 3 };
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[0].number, steps[0].started, steps[0].elapsed), (7, 10, 40));
    assert_eq!(steps[0].parts, parts, "the epoch around it and the callback are the rest");
    assert_eq!(steps[0].slowest, Some((Action::op("aten::mm"), 8)), "both calls");
    assert_eq!(
        (steps[1].elapsed, steps[1].parts, steps[1].slowest),
        (1, StepParts::default(), None)
    );
}

#[test]
fn a_step_that_was_interrupted_is_one_and_others_are_not_the_cycles() {
    let step = |number: u32, start, end| Event {
        action: Action::of_kind(ActionKind::Step, "ProfilerStep", None),
        sequence: number,
        ..event("", start, end, 0)
    };
    let mut profile = Profile::default();
    let mut fold = fold_into(&mut profile);
    let unfinished = Event { is_unfinished: true, ..step(4, 60, 70) };
    let events = [
        step(2, 0, 9),
        event("aten::a", 10, 14, 1),
        step(3, 10, 20),
        event("aten::b", 41, 46, 1),
        step(3, 40, 50),
        unfinished,
    ];
    fold.track(events.into_iter(), std::iter::empty());
    let steps = fold.steps.take(&(3..5));
    assert_eq!(steps.len(), 1);
    assert_eq!((steps[0].number, steps[0].started, steps[0].elapsed), (3, 10, 20));
    assert_eq!(steps[0].slowest, Some((Action::op("aten::b"), 5)));
    // The row of steps also counts the two spans as one call.
    let row = profile.tree.nodes.iter().find(|node| node.kind == ActionKind::Step);
    let calls = &row.expect("there are steps").calls;
    assert_eq!((calls.count, calls.total, calls.first), (3, 9 + 20 + 10, 9));
}

#[test]
fn ops_that_are_remembered_for_a_backward_pass_are_counted() {
    let of = |sequence, direction| Event { sequence, direction, ..event("aten::mm", 0, 1, 0) };
    let events = [of(7, Direction::Forward), of(0, Direction::Forward), of(7, Direction::Backward)];
    let mut profile = Profile::default();
    let mut fold = fold_into(&mut profile);
    fold.track(events.into_iter(), std::iter::empty());
    assert_eq!(fold.tracked_ops, 1);
}

#[test]
fn a_threads_outermost_scopes_are_what_it_did() {
    let step = Event {
        action: Action::of_kind(ActionKind::Step, "ProfilerStep", None),
        ..event("", 0, 100, 0)
    };
    let events = [
        event("aten::b", 12, 20, 2),
        event("aten::a", 10, 30, 1),
        event("aten::c", 40, 45, 1),
        step,
    ];
    let mut profile = Profile::default();
    let mut fold = fold_into(&mut profile);
    assert_eq!(fold.track(events.into_iter(), std::iter::empty()), 25);
}
