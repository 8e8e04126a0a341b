//! Blocks and copies that nobody needs are found in what `mlprof run --memory` reports, until they are gone.

use mlprof_core::Report;
use mlprof_core::report::findings::Rules;

use super::shop::{Finished, Shop};
use super::tries::assert_promise_is_kept;

/// The number behind this word, of what the program said.
fn said(finished: &Finished, word: &str) -> f64 {
    let mut words = finished.stdout.split_whitespace();
    let number = words.find(|said| *said == word).and_then(|_| words.next());
    number.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{word}: {finished:?}"))
}

/// What this rule promises for each turn, in seconds, and the action that it names.
fn promised(shop: &Shop, rules: &Rules, rule: &str, what: &str) -> Option<(f64, String)> {
    let finished = shop.mlprof("--memory waste::prepare,waste::rows_*", &command(what));
    assert_eq!(finished.code, Some(0), "{finished:?}");
    let reports = shop.reports().into_values();
    let memory: Vec<Report> = reports.filter(|it| matches!(it, Report::Memory(_))).collect();
    let [report] = &memory[..] else { panic!("one report of memory: {finished:?}") };
    let found = rules.apply(report).into_iter().find(|finding| finding.rule == rule);
    shop.forget_results();
    found.map(|finding| {
        let place = finding.place.action.expect("a place");
        (finding.cost.seconds / said(&finished, "turns"), place)
    })
}

fn command(what: &str) -> String {
    format!("cargo run --release --quiet -- {what}")
}

/// Rules that know what blocks and copies cost on this machine: thresholds are of others.
fn rules_of_this_machine(shop: &Shop) -> Rules {
    let costs = run(shop, "costs");
    let mut rules = Rules::new();
    for cost in costs.stdout.lines() {
        let (name, value) = cost.split_once(' ').expect("a threshold and its value");
        rules.set(name, value.parse().expect("a number")).expect("a threshold of a rule");
    }
    rules
}

fn run(shop: &Shop, what: &str) -> Finished {
    let command = command(what);
    let words: Vec<&str> = command.split(' ').collect();
    shop.run(words[0], &words[1..])
}

/// The quickest turns of both are compared without a profiler: other programs have not made them longer.
fn assert_found_until_it_is_mended(rule: &str, fault: &str, function: &str) {
    let shop = Shop::copy_of("waste");
    let mended = format!("{fault}-mended");
    let quickest = |what: &str| said(&run(&shop, what), "quickest");
    assert_promise_is_kept(
        |_, saved| saved,
        || {
            let rules = rules_of_this_machine(&shop);
            assert_eq!(promised(&shop, &rules, rule, &mended), None);
            let (promised, place) = promised(&shop, &rules, rule, fault).expect("it is found");
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
