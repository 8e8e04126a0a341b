//! Tests reports in files: `--dirpath`, `--filename`, ranks, unwritable folders, and JSON.

use std::fs;

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::python;
use tests::table::Table;

use crate::short_run;

#[test]
fn with_folder_and_name_reports_go_to_files_and_add_up() {
    let directory = tempdir().expect("a folder");
    let logs = directory.path().join("not/there/yet");
    for expected_reports in 1..=2 {
        let run = short_run(directory.path())
            .args(["--profiler", "simple", "--filename", "F", "--dirpath"])
            .args([&logs])
            .succeed();
        assert!(!run.stdout.contains("Profiler Report"), "{}", run.stdout);
        test_accuracy(&run.stdout);
        assert_eq!(file_names(&logs), ["fit-F.txt", "test-F.txt"]);
        let fit = fs::read_to_string(logs.join("fit-F.txt")).expect("a report");
        assert_eq!(fit.matches("FIT Profiler Report").count(), expected_reports);
        assert!(!fit.contains("TEST Profiler Report"));
        assert_eq!(Table::find("FIT", &fit).row("run_training_epoch").calls, 1);
    }
}

#[test]
fn every_rank_has_a_file_of_its_own() {
    let launchers = [
        [("RANK", "1"), ("LOCAL_RANK", "0"), ("WORLD_SIZE", "2")],
        [
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
        ],
        [("SLURM_PROCID", "1"), ("SLURM_LOCALID", "0"), ("SLURM_NTASKS", "2")],
    ];
    for variables in launchers {
        let directory = tempdir().expect("a folder");
        let run = short_run(directory.path());
        let run = variables.into_iter().fold(run, |run, (name, value)| run.env(name, value));
        let run =
            run.args(["--profiler", "simple", "--filename", "F", "--dirpath", "logs"]).succeed();
        assert_eq!(file_names(&directory.path().join("logs")), ["fit-F-1.txt", "test-F-1.txt"]);
        assert!(!run.stdout.contains("Profiler Report"), "{}", run.stdout);
    }
}

#[test]
fn only_rank_0_prints() {
    let directory = tempdir().expect("a folder");
    let run = short_run(directory.path()).env("RANK", "1").env("WORLD_SIZE", "2");
    let run = run.args(["--profiler", "simple"]).succeed();
    assert!(!run.stdout.contains("Profiler Report"), "{}", run.stdout);
}

/// Checks a path at which a file exists instead of the folder, so that no user can write there, not
/// even root.
#[test]
fn a_folder_that_cannot_be_written_is_said_once_and_training_goes_on() {
    let directory = tempdir().expect("a folder");
    fs::write(directory.path().join("blocked"), "a file").expect("written");
    let run = short_run(directory.path())
        .args(["--profiler", "simple", "--filename", "F", "--dirpath", "blocked"])
        .succeed();
    assert_eq!(run.stderr.matches("cannot write").count(), 1, "{}", run.stderr);
    assert!(run.stderr.contains("blocked"), "the warning names the place: {}", run.stderr);
    assert!(Table::find("FIT", &run.stdout).total.calls > 0, "the report is on the console");
    test_accuracy(&run.stdout);
}

/// Checks with Python that the JSON contains the same values as the table.
#[test]
fn json_says_what_the_table_says() {
    const SCRIPT: &str = r#"
import json, sys
report, test = json.load(open(sys.argv[1]))
assert test["header"]["stage"] == "test", test["header"]
assert report["profiler"] == "simple", report["profiler"]
header = report["header"]
assert header["schema_version"] == 1 and header["stage"] == "fit", header
assert header["wall_seconds"] > 0, header
[note] = header["notes"]
assert note.startswith("loop: burn's single-device loop on "), note
total = {row["action"]: row["total_seconds"] for row in report["actions"]}
if sys.platform == "linux":
    startup = header["startup"]
    assert startup["total_seconds"] == total["process_startup"], startup
    assert startup["before_main_seconds"] == total["process_startup_before_main"], startup
assert test["header"]["startup"] is None and test["data_waiting"] is None, test
waiting = report["data_waiting"]
assert waiting["epoch_seconds"] == total["run_training_epoch"], waiting
assert waiting["waiting_seconds"] == total["[_TrainingEpochLoop].train_dataloader_next"], waiting
for row in report["actions"]:
    assert 0 <= row["self_seconds"] <= row["total_seconds"] * 1.000001, row
    assert (row["rest"] is None) == (row["calls"] == 1), row
    print(row["calls"], row["action"])
"#;
    let directory = tempdir().expect("a folder");
    let json = directory.path().join("report.json");
    let run = short_run(directory.path()).args(["--profiler", "simple", "--json"]);
    let run = run.args([&json]).succeed();
    let mut from_json: Vec<_> = python::run(SCRIPT, &[&json]).lines().map(str::to_owned).collect();
    let fit = Table::find("FIT", &run.stdout);
    let mut from_table: Vec<_> =
        fit.rows.iter().map(|row| format!("{} {}", row.calls, row.action)).collect();
    from_json.sort();
    from_table.sort();
    assert_eq!(from_json, from_table);
}
