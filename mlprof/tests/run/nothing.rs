//! Tests that a missing result is explained to the user.

use super::shop::{Finished, TestProject};

/// Checks that the reason is printed on standard error, and in the JSON and the text of the report.
fn assert_reason_is_reported(project: &TestProject, run: &Finished, kind: &str, reason: &str) {
    assert!(run.stderr.contains(&format!("mlprof: there are no {kind}: ")), "{run:?}");
    assert!(run.stderr.contains(reason), "{reason}: {run:?}");
    let ending = format!("-{kind}.json");
    let report = project.reports().into_iter().find(|(name, _)| name.ends_with(&ending));
    let (name, report) = report.unwrap_or_else(|| panic!("{kind}: {run:?}"));
    let notes = &report.header().notes;
    assert!(notes.iter().any(|note| note.contains(reason)), "{notes:?}");
    let text = project.path("mlprof-results").join(name.replace(".json", ".txt"));
    let text = std::fs::read_to_string(text).expect("the text");
    assert!(text.contains(reason), "{text}");
}

#[test]
fn hooks_that_nobody_called() {
    let project = TestProject::copy_of("endings");
    let run = project.mlprof("--functions endings::never_called", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_reason_is_reported(
        &project,
        &run,
        "functions",
        "1 function has hooks, but the program called none",
    );
    project.forget_results();
    let run = project.mlprof("--lines endings::never_called", "cargo run");
    assert_reason_is_reported(
        &project,
        &run,
        "lines",
        "1 function has hooks, but the program called none",
    );
    project.forget_results();
    let run = project.mlprof("--memory endings::never_called", "cargo run");
    assert_reason_is_reported(
        &project,
        &run,
        "memory",
        "1 function has hooks, but the program called none",
    );
    project.forget_results();
    // No explanation is printed if there are results.
    let run = project.mlprof("--functions endings::leaf", "cargo run");
    assert!(!run.stderr.contains("there are no"), "{run:?}");
}

#[test]
fn patterns_that_match_nothing_and_crates_that_are_not_there() {
    let project = TestProject::copy_of("endings");
    let run = project.mlprof("--functions endings::laef", "cargo run");
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_reason_is_reported(&project, &run, "functions", "no function matches `endings::laef`");
    project.forget_results();
    let run = project.mlprof("--ops candle --functions elsewhere::*", "cargo run");
    let reason = "the program does not contain the selected crates";
    assert_reason_is_reported(&project, &run, "ops", reason);
    assert_reason_is_reported(&project, &run, "functions", reason);
}

#[test]
fn programs_that_are_too_short_for_a_sample() {
    let project = TestProject::copy_of("endings");
    let mut words = super::shop::arguments("--sample 1", "cargo run --");
    words.push("at once");
    let run = project.run(super::shop::MLPROF, &words);
    assert_eq!(run.code, Some(0), "{run:?}");
    assert_reason_is_reported(
        &project,
        &run,
        "samples",
        "the program ended before the first sample",
    );
}
