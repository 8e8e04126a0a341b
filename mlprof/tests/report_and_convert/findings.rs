//! Tests `mlprof report --findings` and `--explain-rules`.

use mlprof_core::Report;
use mlprof_core::report::findings::Rules;
use mlprof_core::report::simple::DataWaitingParts;

use crate::runs::{Folder, printed, refused, simple, text};

const NEXT: &str = "[_TrainingEpochLoop].train_dataloader_next";

/// Returns the report of a ten-second run in which training waited `seconds` for data.
fn waited(seconds: f64) -> Report {
    let Report::Simple(mut report) = simple() else { panic!("a Simple report") };
    report.header.wall_seconds = 10.0;
    report.header.build = None;
    let mut next = report.actions[0].clone();
    (next.action, next.calls) = (NEXT.to_owned(), 100);
    (next.total_seconds, next.first_seconds) = (seconds, 0.0);
    report.actions.push(next);
    let share = seconds / 10.0;
    report.data_waiting = Some(
        DataWaitingParts { waiting_seconds: seconds, epoch_seconds: Some(10.0), share }.build(),
    );
    Report::Simple(report)
}

#[test]
fn findings_are_told_with_all_that_is_known() {
    let folder = Folder::new();
    let file = folder.report("run.json", &waited(5.0));
    let told = printed(&["report", text(&file), "--findings"]);
    assert!(told.starts_with("FIT Profiler Report\n\nFindings, largest cost first\n"), "{told}");
    for part in [
        "1. Training waited 5.00 s of 10.0 s for its data (50.00 %). (likely)\n",
        "   Costs at most 5.00 s (50.00 %), 1.00 s per step\n",
        &format!("   Where: action {NEXT}\n"),
        "   Evidence: share: 50.00 %\n",
        "   Remedy: make batches ahead",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
    let healthy = folder.report("healthy.json", &waited(0.1));
    let told = printed(&["report", text(&healthy), "--findings"]);
    assert_eq!(told, "FIT Profiler Report\n\nNo findings.\n");
}

#[test]
fn thresholds_are_set_by_name() {
    let folder = Folder::new();
    let file = folder.report("run.json", &waited(0.1));
    let told =
        printed(&["report", text(&file), "--findings", "--threshold", "data-waiting.share=0.005"]);
    assert!(told.contains("1. Training waited 100 ms of 10.0 s for its data"), "{told}");
    let unknown = ["report", text(&file), "--findings", "--threshold", "data-waiting.part=1"];
    let said = refused(&unknown);
    assert!(
        said.contains("\"data-waiting.part\"") && said.contains("data-waiting.share"),
        "{said}"
    );
    let unused = refused(&["report", text(&file), "--threshold", "data-waiting.share=0.005"]);
    assert!(unused.contains("--findings"), "{unused}");
    for wrong in ["data-waiting.share", "data-waiting.share=much", "data-waiting.share=-1"] {
        refused(&["report", text(&file), "--findings", "--threshold", wrong]);
    }
}

#[test]
fn each_rule_says_what_it_looked_at_or_what_it_lacks() {
    let folder = Folder::new();
    let file = folder.report("run.json", &waited(5.0));
    let told = printed(&["report", text(&file), "--explain-rules"]);
    for (name, _) in Rules::new().thresholds() {
        let (rule, threshold) = name.split_once('.').expect("a rule and its threshold");
        let is_told =
            told.contains(&format!("\n{rule}: ")) && told.contains(&format!("   {threshold} = "));
        assert!(is_told || rule == "all", "{name} is not in {told}");
    }
    for part in [
        "   found (likely): Training waited 5.00 s of 10.0 s for its data (50.00 %). Costs at most",
        "   healthy: saving: ",
        "   no inputs: the report does not contain the build settings of the program",
        "   no inputs: all reports come from one process: pass the reports of several ranks together",
        "   share = 0.1 (default 0.1): minimum share of training for waiting",
    ] {
        assert!(told.contains(part), "{part:?} is not in {told}");
    }
}

#[test]
fn several_ranks_are_looked_at_side_by_side() {
    let folder = Folder::new();
    let rank = |number: u32, loading: f64| {
        let Report::Simple(mut report) = waited(loading) else { panic!("a Simple report") };
        report.header.rank = number;
        report.header.world_size = 2;
        for (action, seconds) in
            [("run_training_epoch", 10.0), ("all_reduce_gradients", 6.0 - loading)]
        {
            let mut row = report.actions[0].clone();
            (row.action, row.total_seconds) = (action.to_owned(), seconds);
            report.actions.push(row);
        }
        folder.report(&format!("fit-{number}.json"), &Report::Simple(report))
    };
    let (quick, slow) = (rank(0, 0.5), rank(1, 5.0));
    let files = [text(&quick), text(&slow)];
    let told = printed(&[&["report", "--findings"], &files[..]].concat());
    let (_, of_all) = told.split_once("\nComparison of all ranks\n\n").expect("a part of its own");
    let expected = "Rank 1 needs 4.50 s longer for its own work than rank 0 (45.00 %)";
    assert!(of_all.contains(expected) && of_all.contains(NEXT), "{told}");
    let told = printed(&[&["report", "--explain-rules"], &files[..]].concat());
    assert!(told.contains("\nslowest-rank: ") && told.contains(expected), "{told}");
    let alone = printed(&["report", "--findings", text(&quick)]);
    assert!(!alone.contains("Comparison of all ranks"), "{alone}");
    let tables = printed(&["report", files[0], files[1]]);
    assert!(!tables.contains("Comparison of all ranks"), "{tables}");
}

/// A report that contains findings prints them below its tables, as the profiler did.
#[test]
fn findings_are_printed_again() {
    let folder = Folder::new();
    let report = waited(5.0);
    let without = printed(&["report", text(&folder.report("without.json", &report))]);
    assert!(!without.contains("Finding: "), "{without}");
    let json = Rules::new().annotate(report).to_json().expect("JSON");
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["findings"][0]["rule"], "data-waiting");
    assert_eq!(value["findings"][0]["confidence"], "likely");
    assert_eq!(value["findings"][0]["place"]["action"], NEXT);
    let with = printed(&["report", text(&folder.file("with.json", &json))]);
    let line = with.strip_prefix(&without).unwrap_or_else(|| panic!("{with}"));
    let expected = "Finding: Training waited 5.00 s of 10.0 s for its data (50.00 %). Up to 5.00 s \
                    (50.00 %) can be saved: make batches ahead";
    assert!(line.starts_with(expected) && line.lines().count() == 1, "{line}");
}
