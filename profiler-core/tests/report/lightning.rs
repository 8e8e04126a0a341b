use std::fs;
use std::path::Path;

use mlprof_core::Stage;
use mlprof_core::report::StartupDurationsParts;
use mlprof_core::report::simple::DataWaitingParts;
use mlprof_core::report::simple::lightning::{paint, paint_on_console};

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
fn running_actions_and_notes_follow_the_table() {
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
    report.data_waiting = Some(
        DataWaitingParts { waiting_seconds: 0.5, epoch_seconds: Some(2.0), share: 0.25 }.build(),
    );
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
        Some(StartupDurationsParts { total_seconds: 14.0, before_main_seconds: None }.build());
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

#[test]
fn rows_that_nest_are_explained_and_the_largest_self_times_named() {
    let mut epoch = row("run_training_epoch", &[10.0]);
    epoch.self_seconds = 0.5;
    let mut step = row("[LightningModule]Net.optimizer_step", &[9.5]);
    step.self_seconds = 0.25;
    let rows = vec![epoch, step, row("Optimizer.step", &[5.0]), row("backward", &[4.25])];
    let report = simple(Some(Stage::Fit), 10.0, rows);
    for extended in [true, false] {
        let text = paint(&report, extended);
        let below = text.rsplit_once("---\n").expect("a table").1;
        assert_eq!(
            below,
            "Rows nest: a row includes the time of the rows inside it, so percentages add up to \
             more than 100 %.\nRows with the most time of their own (self time): Optimizer.step 5.00 s (50.00 %), \
             backward 4.25 s (42.50 %), run_training_epoch 500 ms (5.00 %)\n"
        );
    }
    // Rows that do not nest add up, so the note about nesting is missing.
    let text = paint(&simple(None, 10.0, vec![row("a", &[4.0]), row("b", &[6.0])]), true);
    assert!(!text.contains("Rows nest"), "{text}");
}

#[test]
fn the_console_has_the_longer_rows_and_counts_the_others() {
    let mut rows = vec![row("step", &[9.0]), row("read_loss", &[0.01])];
    rows.extend((0..78).map(|hook| row(&format!("hook {hook}"), &[0.009_99])));
    let report = simple(Some(Stage::Fit), 10.0, rows);
    for extended in [true, false] {
        let text = paint_on_console(&report, extended);
        assert!(text.contains("step ") && text.contains("read_loss"), "{text}");
        assert!(!text.contains("hook"), "{text}");
        let note = "78 more rows are each below 0.1 % of the wall time; .all_rows(true) or \
                    MLPROF_ALL_ROWS=1 prints them, and report files have all rows.\n";
        assert!(text.ends_with(note), "{text}");
        assert_eq!(paint(&report, extended).matches("hook").count(), 78);
    }
}

#[test]
fn an_epoch_that_is_still_running_stands_above_its_batches() {
    let rows = vec![row("run_training_batch", &[33.4]), row("run_training_epoch", &[32.2])];
    let mut report = simple(Some(Stage::Fit), 36.0, rows);
    report.open = vec![samples::open("run_training_epoch", "main", 1.5)];
    let text = paint(&report, true);
    let place = |name: &str| text.find(&format!("|  {name}")).expect("a row");
    assert!(place("run_training_epoch") < place("run_training_batch"), "{text}");
    assert!(text.contains("|  32.2 "), "calls that have ended: {text}");
    let last = "Still running: run_training_epoch on main for 1.500 s\n\
                Rows contain ended calls only; running calls count for the order of rows.\n";
    assert!(text.ends_with(last), "{text}");
}
