//! Tests that a missing result is explained to the user.

use super::shop::{Finished, Shop};

/// Checks that the reason is printed on standard error, and in the JSON and the text of the report.
fn assert_told(shop: &Shop, run: &Finished, kind: &str, reason: &str) {
    assert!(run.stderr.contains(&format!("mlprof: there are no {kind}: ")), "{run:?}");
    assert!(run.stderr.contains(reason), "{reason}: {run:?}");
    let ending = format!("-{kind}.json");
    let report = shop.reports().into_iter().find(|(name, _)| name.ends_with(&ending));
    let (name, report) = report.unwrap_or_else(|| panic!("{kind}: {run:?}"));
    let notes = &report.header().notes;
    assert!(notes.iter().any(|note| note.contains(reason)), "{notes:?}");
    let text = shop.path("mlprof-results").join(name.replace(".json", ".txt"));
    let text = std::fs::read_to_string(text).expect("the text");
    assert!(text.contains(reason), "{text}");
}

#[test]
fn hooks_that_nobody_called() {
    let shop = Shop::copy_of("endings");
    let run = shop.mlprof("--functions endings::never_called", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_told(&shop, &run, "functions", "1 function has hooks, but the program called none");
    shop.forget_results();
    let run = shop.mlprof("--lines endings::never_called", "cargo run");
    assert_told(&shop, &run, "lines", "1 function has hooks, but the program called none");
    shop.forget_results();
    let run = shop.mlprof("--memory endings::never_called", "cargo run");
    assert_told(&shop, &run, "memory", "1 function has hooks, but the program called none");
    shop.forget_results();
    // No explanation is printed if there are results.
    let run = shop.mlprof("--functions endings::leaf", "cargo run");
    assert!(!run.stderr.contains("there are no"), "{run:?}");
}

#[test]
fn patterns_that_match_nothing_and_crates_that_are_not_there() {
    let shop = Shop::copy_of("endings");
    let run = shop.mlprof("--functions endings::laef", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_told(&shop, &run, "functions", "no function matches `endings::laef`");
    shop.forget_results();
    let run = shop.mlprof("--ops candle --functions elsewhere::*", "cargo run");
    let reason = "the program does not contain the selected crates";
    assert_told(&shop, &run, "ops", reason);
    assert_told(&shop, &run, "functions", reason);
}

#[test]
fn programs_that_are_too_short_for_a_sample() {
    let shop = Shop::copy_of("endings");
    let mut words = super::shop::arguments("--sample 1", "cargo run --");
    words.push("at once");
    let run = shop.run(super::shop::MLPROF, &words);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_told(&shop, &run, "samples", "the program ended before the first sample");
}
