//! Tests with reports before and after a known change.

mod false_alarms;
mod kinds;

use super::*;
use crate::Error;
use crate::Report;
use crate::findings::samples::{op, recorded, row, steps};
use crate::simple::{ActionStatistics, MedianLimits, SimpleReport};

/// Returns an action with a median that is known within the fraction `within`.
fn known(name: &str, calls: u64, each: f64, within: f64) -> ActionStatistics {
    let mut row = row(name, calls, calls as f64 * each);
    if let Some(rest) = &mut row.rest {
        let (low_seconds, high_seconds) = (each * (1.0 - within), each * (1.0 + within));
        rest.p50_limits = Some(MedianLimits { low_seconds, high_seconds });
    }
    row
}

/// Builds a report with 100 steps of 10 ms, an action `load` that is known within 3 %, and other
/// actions.
fn run(load: f64, others: Vec<ActionStatistics>) -> Report {
    let mut report = steps(100, 0.01);
    report.header.wall_seconds = 1.0;
    report.actions =
        vec![known("run_training_batch", 100, 0.01, 0.03), known("load", 100, load, 0.03)];
    report.actions.extend(others);
    Report::Simple(report)
}

fn of(before: &[Report], after: &[Report]) -> Comparison {
    compare(before, after).expect("something in common")
}

fn find<'rows>(comparison: &'rows Comparison, subject: Subject, name: &str) -> &'rows ComparedRow {
    let mut tables = comparison.parts.iter().flat_map(|part| &part.tables);
    let table = tables.find(|table| table.subject == subject).expect("a table");
    table.rows.iter().find(|row| row.name == name).unwrap_or_else(|| panic!("{table:#?}"))
}

fn verdict(before: &[Report], after: &[Report], name: &str) -> Verdict {
    find(&of(before, after), Subject::Actions, name).verdict
}

fn about(value: Option<f64>, expected: f64) {
    assert!(value.is_some_and(|value| (value - expected).abs() < 1e-9), "{value:?}, {expected}");
}

#[test]
fn slower_rows_differ_from_varying_rows() {
    let before = [run(0.002, vec![])];
    for (load, expected) in [
        (0.002, Verdict::Same),
        // Each side would be known within 3 % if its calls were independent. Calls of a run without
        // steps may depend on each other strongly.
        (0.0022, Verdict::Same),
        (0.0026, Verdict::Worse),
        (0.0014, Verdict::Better),
    ] {
        assert_eq!(verdict(&before, &[run(load, vec![])], "load"), expected, "{load}");
    }
    let comparison = of(&before, &[run(0.003, vec![])]);
    let slower = find(&comparison, Subject::Actions, "load");
    about(slower.change, 0.5);
    let sure = slower.sure_change.expect("it is sure");
    assert!(sure > 0.1 && sure < 0.003 * 0.97 / (0.002 * 1.03) - 1.0, "{sure}");
    about(Some(slower.share), 0.3);
    let first = &comparison.parts[0].tables.iter().find(|it| it.subject == Subject::Actions);
    assert_eq!(first.expect("actions").rows[0].name, "load", "the worst comes first");
}

#[test]
fn only_what_is_beyond_the_threshold_and_large_enough_is_a_regression() {
    let comparison = of(
        &[run(0.002, vec![known("log", 100, 1e-6, 0.01)])],
        &[run(0.003, vec![known("log", 100, 9e-6, 0.01)])],
    );
    let names = |threshold: f64| -> Vec<String> {
        comparison.regressions(threshold).into_iter().map(|regression| regression.name).collect()
    };
    assert_eq!(names(0.05), ["load"], "logging is 0.09 % of the run");
    assert_eq!(names(0.3), [""; 0], "it is 50 % more, but not surely 30 %");
    let told = comparison.regressions(0.05)[0].to_string();
    let start = "Simple, fit: Actions: load: slower, +50.0 % (at least +";
    let end = " %): 2.00 ms before, 3.00 ms after; 30.00 % of the run";
    assert!(told.starts_with(start) && told.ends_with(end), "{told}");
    assert!(comparison.is_judged());
}

/// Checks that ten thousand rows of equal runs contain no regression.
#[test]
fn equal_runs_differ_in_nothing() {
    let rows = || (0..10_000).map(|index| known(&format!("row {index}"), 50, 1e-6, 0.0)).collect();
    let comparison = of(&[run(0.002, rows())], &[run(0.002, rows())]);
    assert_eq!(comparison.regressions(0.0), []);
    let tables = comparison.parts.iter().flat_map(|part| &part.tables);
    let told = tables.flat_map(|table| &table.rows).filter(|row| row.sure_change != Some(0.0));
    assert_eq!(told.map(|row| &row.name).collect::<Vec<_>>(), ["wall time"], "one run of each");
    assert!(comparison.parts[0].notes[0].contains("The same run"), "{comparison:?}");
}

#[test]
fn few_calls_tell_nothing() {
    let once = |seconds: f64| {
        let mut only = row("save", 1, seconds);
        only.rest = None;
        run(0.002, vec![only])
    };
    assert_eq!(verdict(&[once(0.1)], &[once(0.9)], "save"), Verdict::TooFew);
    let comparison = of(&[once(0.1)], &[once(0.9)]);
    assert_eq!(comparison.regressions(0.0), []);
    // Three runs per side show the variation between runs and allow a verdict.
    let side = |seconds: [f64; 3]| seconds.map(once);
    let before = side([0.10, 0.11, 0.12]);
    assert_eq!(verdict(&before, &side([0.9, 0.91, 0.92]), "save"), Verdict::Worse);
    assert_eq!(verdict(&before, &side([0.1, 0.9, 0.92]), "save"), Verdict::Same);
    // The report now contains only an action with too few calls.
    let alone = |seconds: f64| {
        let Report::Simple(mut report) = once(seconds) else { panic!("a Simple report") };
        report.actions.drain(..2);
        Report::Simple(report)
    };
    assert!(!of(&[alone(0.1)], &[alone(0.9)]).is_judged());
}

#[test]
fn several_runs_are_their_own_yardstick() {
    let side =
        |loads: &[f64]| -> Vec<Report> { loads.iter().map(|load| run(*load, vec![])).collect() };
    // Each run alone is known within 3 %. Together the runs show a larger variation.
    let before = side(&[0.0020, 0.0024, 0.0028]);
    let after = side(&[0.0029, 0.0031, 0.0033]);
    assert_eq!(verdict(&before[..1], &after[..1], "load"), Verdict::Worse);
    assert_eq!(verdict(&before, &after, "load"), Verdict::Same);
    let far = side(&[0.009, 0.0091, 0.0092]);
    assert_eq!(verdict(&before, &far, "load"), Verdict::Worse);
    let comparison = of(&before, &far);
    let load = find(&comparison, Subject::Actions, "load");
    about(load.before.map(|side| side.value), 0.0024);
    assert_eq!(comparison.parts[0].before.runs, 3);
    assert!(comparison.notes.iter().all(|note| !note.contains("One run")), "{comparison:?}");
}

#[test]
fn how_often_something_runs_counts_where_steps_are_as_many() {
    let validated = |calls: u64| run(0.002, vec![known("validate", calls, 0.001, 0.01)]);
    let comparison = of(&[validated(40)], &[validated(400)]);
    let row = find(&comparison, Subject::Actions, "validate");
    assert_eq!(row.verdict, Verdict::Worse);
    about(row.change, 9.0);
    let told = comparison.regressions(0.5)[0].to_string();
    assert!(
        told.contains("): 1.00 ms before, 1.00 ms after, called 400 times instead of 40"),
        "{told}"
    );
    // Runs with another number of steps are compared call by call.
    let Report::Simple(mut longer) = validated(400) else { panic!("a Simple report") };
    longer.actions[0].calls = 1_000;
    let comparison = of(&[validated(40)], &[Report::Simple(longer)]);
    assert_eq!(find(&comparison, Subject::Actions, "validate").verdict, Verdict::Same);
    assert!(comparison.parts[0].notes[0].starts_with("Steps: 100 before, 1,000 after."));
}

#[test]
fn rows_of_one_side_are_said_to_be() {
    let comparison = of(
        &[run(0.002, vec![known("old", 100, 0.001, 0.0)])],
        &[run(0.002, vec![known("new", 100, 0.001, 0.0)])],
    );
    assert_eq!(find(&comparison, Subject::Actions, "old").verdict, Verdict::OnlyBefore);
    let new = find(&comparison, Subject::Actions, "new");
    assert_eq!((new.verdict, new.before, new.change), (Verdict::OnlyAfter, None, None));
    let text = comparison.text();
    assert!(text.contains("only before  old\n") && text.contains("only after  new\n"), "{text}");
}

#[test]
fn ranks_are_compared_with_their_own() {
    let rank = |rank: u32, load: f64| {
        let mut report = run(load, vec![]);
        let header = report.header_mut();
        (header.rank, header.world_size) = (rank, 2);
        report
    };
    let comparison = of(&[rank(0, 0.002), rank(1, 0.002)], &[rank(1, 0.004), rank(0, 0.002)]);
    let titles: Vec<_> = comparison.parts.iter().map(ComparedReports::title).collect();
    assert_eq!(titles, ["Simple, fit, rank 1", "Simple, fit, rank 0"]);
    let regressions = comparison.regressions(0.05);
    let reports: Vec<_> = regressions.iter().map(|it| it.report.as_str()).collect();
    assert_eq!(reports, ["Simple, fit, rank 1"]);
    let alone = of(&[rank(0, 0.002), rank(1, 0.002)], &[rank(0, 0.002)]);
    assert!(alone.notes.contains(&"Only before has Simple, fit, rank 1.".to_owned()));
}

#[test]
fn reports_without_common_rows_are_not_compared() {
    let simple = [run(0.002, vec![])];
    let tensor = Report::Tensor(recorded(vec![op("matmul", 100, 1.0)]));
    let error = compare(&simple, &[tensor]).expect_err("of two kinds");
    let expected = "after has Tensor, fit, before has Simple, fit;";
    assert!(error.to_string().contains(expected), "{error}");
    let Report::Simple(mut other) = simple[0].clone() else { panic!("a Simple report") };
    other.actions = vec![row("something else", 9, 1.0)];
    let other = Report::Simple(other);
    assert_eq!(compare(&simple, &[other]), Err(Error::OtherProgram));
    let error = compare(&[], &simple).expect_err("nothing");
    assert!(error.to_string().contains("before has no report"), "{error}");
}

#[test]
fn other_differences_are_reported() {
    let built = |level: &str| {
        let mut report = run(0.002, vec![]);
        report.header_mut().build = Some(crate::BuildSettings {
            processor_features: Vec::new(),
            debug_assertions: level == "0",
            opt_level: level.to_owned(),
            target_features: Vec::new(),
        });
        report
    };
    let comparison = of(&[built("3")], &[built("0")]);
    let notes = &comparison.parts[0].notes;
    assert!(notes.contains(&"Optimization level: 3 before, 0 after.".to_owned()), "{notes:?}");
    assert!(notes.contains(&"Debug assertions: off before, on after.".to_owned()), "{notes:?}");
    assert!(comparison.notes[0].starts_with("One run of a side"), "{comparison:?}");
}

#[test]
fn hostile_names_stay_on_their_line() {
    let name = format!("a\nb\u{202e}</script>{}", "x".repeat(10_000));
    let side = |each: f64| run(0.002, vec![known(&name, 100, each, 0.01)]);
    let comparison = of(&[side(0.001)], &[side(0.002)]);
    let text = comparison.text();
    assert!(text.contains(r"a\nb\u{202e}</script>xxx") && !text.contains('\u{202e}'), "{text}");
    assert!(text.lines().all(|line| line.chars().count() < 400), "{text}");
    let told = comparison.regressions(0.05)[0].to_string();
    assert!(told.lines().count() == 1 && told.contains(r"a\nb"), "{told}");
}

#[test]
fn tables_say_how_much_they_left_out() {
    let rows = || (0..30).map(|index| known(&format!("row {index}"), 50, 1e-3, 0.0)).collect();
    let comparison = of(&[run(0.002, rows())], &[run(0.002, rows())]);
    assert!(comparison.text().contains("… and 12 more with smaller changes\n"));
    let is_shown = |name: &str| name.ends_with('7');
    let text = comparison.text_with(&TextOptions { limit: 2, is_shown: Some(&is_shown) });
    assert!(text.contains("row 17") && text.contains("row 27") && !text.contains("load"), "{text}");
    assert!(text.contains("… and 1 more with smaller changes\n"), "{text}");
}

#[test]
fn reports_that_say_nothing_of_the_median_are_told_of_as_such() {
    let of_before = |load: f64| {
        let mut report: SimpleReport = steps(100, load);
        report.actions.push(row("load", 100, 100.0 * load));
        Report::Simple(report)
    };
    assert_eq!(verdict(&[of_before(0.1)], &[of_before(0.9)], "load"), Verdict::Unknown);
}
