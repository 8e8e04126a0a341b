use std::fs;
use std::path::Path;

use profiler_core::Stage;
use profiler_core::report::StartupDurations;
use profiler_core::report::lightning::paint;
use profiler_core::report::simple::DataWaiting;

use crate::samples::{self, Golden, row, simple};

#[test]
fn every_golden_report_comes_out_byte_for_byte() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/simple");
    let mut seen = 0;
    for entry in fs::read_dir(&folder).expect("the golden files") {
        let input = entry.expect("an entry").path();
        if input.extension().is_none_or(|extension| extension != "json") {
            continue;
        }
        let json = fs::read_to_string(&input).expect("a golden input");
        let golden: Golden = serde_json::from_str(&json).expect("a golden input");
        let rows = golden.durations_s.iter().map(|(name, durations)| row(name, durations));
        let report = simple(golden.stage, golden.wall_s, rows.collect());
        let expected = fs::read_to_string(input.with_extension("txt")).expect("its report");
        assert_eq!(paint(&report, golden.extended), expected, "{}", input.display());
        seen += 1;
    }
    assert!(seen >= 7, "only {seen} golden reports in {}", folder.display());
}

#[test]
fn what_is_still_running_and_notes_come_below_the_table() {
    let mut report = simple(Some(Stage::Fit), 7.0, vec![row("step", &[1.0])]);
    let complete = paint(&report, true);
    report.open = vec![samples::open("run\ntraining_epoch", "main", 1.23449)];
    report.header.notes = vec!["12 calls were not recorded: …".into()];
    let remarks = "Still running: run\\ntraining_epoch on main for 1.234 s\n\
                   Note: 12 calls were not recorded: …\n";
    assert_eq!(paint(&report, true), complete.clone() + remarks);
    assert!(paint(&report, false).ends_with(remarks));
    report.actions.clear();
    assert_eq!(paint(&report, true), format!("FIT Profiler Report\n\n{remarks}"));
}

#[test]
fn waiting_for_data_comes_below_the_table() {
    let mut report = simple(Some(Stage::Fit), 7.0, vec![row("step", &[1.0])]);
    let complete = paint(&report, true);
    report.data_waiting =
        Some(DataWaiting { waiting_seconds: 0.5, epoch_seconds: Some(2.0), share: 0.25 });
    report.header.notes = vec!["x".into()];
    let line = "Waiting for data: 500 ms of 2.00 s in training epochs (25.00 %)\nNote: x\n";
    assert_eq!(paint(&report, true), complete + line);
}

#[test]
fn start_up_is_no_share_of_the_wall_time() {
    let rows = vec![row("process_startup", &[14.0]), row("step", &[3.5])];
    let mut report = simple(Some(Stage::Fit), 7.0, rows);
    assert!(paint(&report, true).contains("|  200.0 "), "somebody's own action of that name");
    report.header.startup =
        Some(StartupDurations { total_seconds: 14.0, before_main_seconds: None });
    let text = paint(&report, true);
    let line = text.lines().find(|line| line.contains("process_startup")).expect("its row");
    assert!(line.ends_with("|  14.0           \t|  -              \t|"), "{line}");
    assert!(text.contains("|  50.0 "), "{text}");
}

#[test]
fn rows_of_the_sanity_check_are_told_apart() {
    let mut sanity = row("validation_step", &[0.5]);
    sanity.sub_stage = Some(Stage::SanityCheck);
    let rows = vec![row("validation_step", &[1.0]), sanity];
    let text = paint(&simple(Some(Stage::Fit), 2.0, rows), true);
    assert!(text.contains("\n|  validation_step             \t|  1.0 "), "{text}");
    assert!(text.contains("\n|  [SanityCheck]validation_step\t|  0.5 "), "{text}");
}

#[test]
fn awkward_names_keep_the_table_in_shape() {
    let long = "n".repeat(10_000);
    let names = ["", "a\nb", "a\tb", "🔥", &long];
    let rows = names.iter().map(|name| row(name, &[1.0])).collect();
    let text = paint(&simple(None, 7.0, rows), true);
    let rows: Vec<_> = text.lines().filter(|line| line.starts_with('|')).collect();
    assert_eq!(rows.len(), 2 + names.len(), "one line each");
    for row in rows {
        assert_eq!(row.matches('\t').count(), 5, "no tab but the table's own: {row}");
    }
    assert!(text.contains(r"|  a\nb ") && text.contains(r"|  a\tb "), "{text}");
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest < Some(350), "{widest:?}");
}

#[test]
fn a_stage_that_took_no_time_is_no_error() {
    let text = paint(&simple(Some(Stage::Fit), 0.0, vec![row("step", &[0.0])]), true);
    assert!(text.contains("|  nan  "), "no share of nothing: {text}");
}
