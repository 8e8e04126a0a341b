//! Tests the smaller programs of `burn-digits`: a custom profiler and a hand-written loop.

use tempfile::tempdir;
use tests::program::{Run, build};
use tests::table::Table;

#[test]
fn a_profiler_of_ones_own_sees_every_action_when_it_first_happens() {
    let directory = tempdir().expect("a folder");
    let program = build("burn-digits", "custom-profiler");
    let finished = Run::of(&program, directory.path()).succeed();
    // 2026-01-02 03:04:05.000006      20 x  run_training_batch
    let rows: Vec<(&str, u64, &str)> = finished
        .stdout
        .lines()
        .filter_map(|line| {
            let (left, action) = line.split_once(" x  ")?;
            let (first, calls) = left.rsplit_once(' ')?;
            Some((first.trim(), calls.parse().ok()?, action))
        })
        .collect();
    let calls = |action: &str| {
        let row = rows.iter().find(|row| row.2 == action);
        row.unwrap_or_else(|| panic!("{action} is missing in {}", finished.stdout)).1
    };
    assert_eq!(calls("setup"), 1);
    assert_eq!(calls("Optimizer.step"), calls("run_training_batch"));
    let next = calls("[_TrainingEpochLoop].train_dataloader_next");
    assert_eq!(next, calls("run_training_batch") + 1, "the last one finds the end");
    assert!(rows.is_sorted_by_key(|row| row.0), "in order of first occurrence");
    assert!(rows.iter().all(|row| row.0.len() == "2026-01-02 03:04:05.000006".len()));
}

#[test]
fn a_loop_of_ones_own_reports_what_it_guards() {
    let directory = tempdir().expect("a folder");
    let program = build("burn-digits", "burn-hand-written-loop");
    let finished = Run::of(&program, directory.path()).succeed();
    let table = Table::find("FIT", &finished.stdout);
    assert!(table.row("forward").calls > 0);
    for action in ["backward", "Optimizer.step"] {
        assert_eq!(table.row(action).calls, table.row("forward").calls, "{action}");
    }
}
