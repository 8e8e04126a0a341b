//! Programs with many callees, deep nesting and forgotten guards.

use super::*;
use crate::recorder::stack::looks;
use crate::report::Report;

/// Smaller under Miri, where every step takes a thousand times as long.
const MANY: usize = if cfg!(miri) { 200 } else { 10_000 };

fn functions(count: usize) -> Vec<Action> {
    (0..count).map(|n| function(&format!("large{n}"), n as u32)).collect()
}

fn actions(count: usize) -> Vec<Action> {
    (0..count).map(|n| Action::new(&format!("large action {n}"))).collect()
}

/// Opens all actions, each inside the previous one, and closes them again.
fn nest(profiler: &AdvancedProfiler, actions: &[Action]) {
    actions.iter().for_each(|action| profiler.start(*action));
    for action in actions.iter().rev() {
        profiler.stop(*action).expect("it was started");
    }
}

#[test]
fn a_tree_of_ten_thousand_levels_is_written_and_read_back() {
    let profiler = AdvancedProfiler::new();
    nest(&profiler, &functions(MANY));
    let report = profiler.report().expect("a report");
    let json = report.to_json().expect("JSON");
    let back = Report::from_json(&json).expect("what was written");
    assert!(back == report);
    let Report::Advanced(back) = back else { unreachable!("it says so") };
    let deepest = back.threads[0].nodes().map(|(around, _)| around + 1).max();
    assert_eq!(deepest, Some(MANY));
    assert!(!profiler.summary().is_empty());
}

/// Checks that a function without open calls is not searched on the path, so that deep trees grow
/// at a constant cost per node.
#[test]
fn the_cost_of_a_new_node_does_not_grow_with_its_depth() {
    let profiler = AdvancedProfiler::new();
    let before = looks::count();
    nest(&profiler, &functions(MANY));
    nest(&profiler, &actions(MANY / 10));
    assert!(looks::count() - before <= MANY, "{} places", looks::count() - before);
}

#[test]
fn sixty_one_nested_functions_are_read_back() {
    let profiler = AdvancedProfiler::new();
    nest(&profiler, &functions(61));
    let report = profiler.report().expect("a report");
    let json = report.to_json().expect("JSON");
    assert!(Report::from_json(&json).expect("what was written") == report);
}

#[test]
fn every_callee_of_a_place_with_thousands_has_its_own_numbers() {
    let profiler = AdvancedProfiler::new();
    let functions = functions(MANY);
    for round in 0..3 {
        let _action = profiler.profile("large");
        for function in functions.iter().skip(round) {
            drop(profiler.profile(*function));
        }
    }
    let report = profiler.snapshot();
    let rows = &profile(&report, "large").functions;
    assert_eq!(rows.len(), MANY + 1);
    let calls = |name: &str| row(profile(&report, "large"), name).calls.total_calls;
    assert_eq!((calls("large0"), calls("large1"), calls("large7"), calls("large")), (1, 2, 3, 3));
}

/// Checks that nested tables are limited. The table of an action shows all calls below it, so all
/// tables of nested actions would add up to the square of the depth.
#[test]
fn tables_of_actions_inside_each_other_are_bounded_and_add_up() {
    let profiler = AdvancedProfiler::new();
    nest(&profiler, &actions(MANY));
    let report = profiler.snapshot();
    let rows: usize = report.actions.iter().map(|profile| profile.functions.len()).sum();
    assert_eq!(report.actions.len(), MANY);
    assert!(rows <= 300_000, "{rows} rows");
    let is_told = report.header.notes.iter().any(|note| note.contains("nested so deeply"));
    assert_eq!(is_told, MANY > 1000, "{:?}", report.header.notes);
    for profile in report.actions.iter().step_by(97) {
        let own: f64 = profile.functions.iter().map(|row| row.calls.self_seconds).sum();
        assert!((own - profile.total_seconds).abs() <= 1e-6 * profile.total_seconds + 1e-9);
        let name = &profile.action;
        assert_eq!((profile.calls, row(profile, name).calls.total_calls), (1, 1), "{name}");
    }
}

#[test]
fn an_action_that_calls_itself_counts_all_its_calls() {
    fn recurse(profiler: &AdvancedProfiler, depth: u32) {
        let _scope = profiler.profile("recursive action");
        if depth > 1 {
            let _between = profiler.profile(function("between", 1));
            recurse(profiler, depth - 1);
        }
    }
    let profiler = AdvancedProfiler::new();
    for _ in 0..3 {
        recurse(&profiler, 3);
    }
    let report = profiler.snapshot();
    let recursive = profile(&report, "recursive action");
    assert_eq!(recursive.calls, 9);
    let calls = row(recursive, "recursive action").calls;
    assert_eq!((calls.total_calls, calls.primitive_calls), (9, 3));
    assert!((recursive.total_seconds - calls.cumulative_seconds).abs() < 1e-9);
}

#[test]
fn running_actions_have_limited_lines_and_a_count() {
    let profiler = AdvancedProfiler::new();
    for action in actions(2_000) {
        std::mem::forget(profiler.profile(action));
    }
    let report = profiler.snapshot();
    assert_eq!(report.open.len(), 1_000);
    assert_eq!(report.open[0].action, "large action 0", "the longest first");
    assert!(report.header.notes.iter().any(|note| note.contains("2000 actions are still running")));
    let text = profiler.summary();
    assert_eq!(text.matches("Still running: ").count(), 21);
    assert!(text.contains("Still running: and 980 more"), "{text}");
}
