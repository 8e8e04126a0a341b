//! Tests that `mlprof run --memory` finds unnecessary blocks and copies, and that the finding
//! disappears when they are removed.

use mlprof_core::Report;
use mlprof_core::report::findings::Rules;

use super::shop::{Finished, TestProject};
use super::tries::assert_promise_is_kept;

/// Returns the number after a word in the program's output.
fn said(finished: &Finished, word: &str) -> f64 {
    let mut words = finished.stdout.split_whitespace();
    let number = words.find(|said| *said == word).and_then(|_| words.next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{word}: {finished:?}"))
}

/// Returns the seconds per turn that the rule promises to save, and the action that the finding
/// names.
fn promised(project: &TestProject, rules: &Rules, rule: &str, what: &str) -> Option<(f64, String)> {
    let finished = project.mlprof("--memory waste::prepare,waste::rows_*", &command(what));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let reports = project.reports().into_values();
    let memory: Vec<Report> = reports.filter(|it| matches!(it, Report::Memory(_))).collect();
    let [report] = &memory[..] else { panic!("one report of memory: {finished:?}") };
    let found = rules.apply(report).into_iter().find(|finding| finding.rule == rule);
    project.forget_results();
    found.map(|finding| {
        let place = finding.place.action.expect("a place");
        (finding.cost.seconds / said(&finished, "turns"), place)
    })
}

fn command(what: &str) -> String {
    format!("cargo run --release --quiet -- {what}")
}

/// Returns rules with this machine's costs of blocks and copies, instead of the default thresholds
/// from other machines.
fn rules_of_this_machine(project: &TestProject) -> Rules {
    let costs = run(project, "costs");
    let mut rules = Rules::new();
    for cost in costs.stdout.lines() {
        let (name, value) = cost.split_once(' ').expect("a threshold and its value");
        rules.set(name, value.parse().expect("a number")).expect("a threshold of a rule");
    }
    rules
}

fn run(project: &TestProject, what: &str) -> Finished {
    let command = command(what);
    let words: Vec<&str> = command.split(' ').collect();
    project.run(words[0], &words[1..])
}

/// Checks the finding with and without the fault. The fastest turns of both programs are compared
/// without a profiler, because other programs cannot slow those down.
fn assert_found_until_it_is_mended(rule: &str, fault: &str, function: &str) {
    let project = TestProject::copy_of("waste");
    let mended = format!("{fault}-mended");
    let quickest = |what: &str| said(&run(&project, what), "quickest");
    assert_promise_is_kept(
        |_, saved| saved,
        || {
            let rules = rules_of_this_machine(&project);
            assert_eq!(promised(&project, &rules, rule, &mended), None);
            let (promised, place) = promised(&project, &rules, rule, fault).expect("it is found");
            assert_eq!(place, function);
            (promised, quickest(fault) - quickest(&mended))
        },
    );
}

#[test]
fn a_block_for_each_row_is_found_until_there_is_one_for_all() {
    assert_found_until_it_is_mended("allocation-churn", "blocks", "waste::rows_in_blocks");
}

#[test]
fn a_copy_of_all_images_is_found_until_they_are_lent() {
    assert_found_until_it_is_mended("large-copies", "copies", "waste::prepare");
}
