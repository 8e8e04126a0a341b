//! Tests reports in files, reports per rank, a full disk, and an unknown profiler.

use std::fs;

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::program::Run;
use tests::python;
use tests::table::Table;

use crate::program;

#[test]
fn a_typo_is_refused_with_the_choices_before_anything_runs() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&program(), directory.path()).args(["--profiler", "smiple"]).finish();
    assert_eq!(run.status.code(), Some(2), "{run:#?}");
    for expected in ["smiple", "simple", "advanced", "tensor", "none"] {
        assert!(run.stderr.contains(expected), "no {expected:?} in:\n{}", run.stderr);
    }
    assert!(!run.stdout.contains("test accuracy"));
}

#[test]
fn every_rank_has_files_of_its_own_whoever_started_it() {
    let launchers: [&[(&str, &str)]; 3] = [
        &[("RANK", "1"), ("LOCAL_RANK", "1"), ("WORLD_SIZE", "2")],
        &[
            ("OMPI_COMM_WORLD_RANK", "1"),
            ("OMPI_COMM_WORLD_LOCAL_RANK", "0"),
            ("OMPI_COMM_WORLD_SIZE", "2"),
        ],
        &[
            ("SLURM_JOB_ID", "7"),
            ("SLURM_JOB_NAME", "train"),
            ("SLURM_STEP_ID", "0"),
            ("SLURM_STEP_NUM_TASKS", "2"),
            ("SLURM_PROCID", "1"),
            ("SLURM_LOCALID", "0"),
            ("SLURM_NTASKS", "2"),
        ],
    ];
    for launcher in launchers {
        let directory = tempdir().expect("a folder");
        let mut run = Run::of(&program(), directory.path()).args(["--epochs", "1"]);
        for (name, value) in launcher {
            run = run.env(name, value);
        }
        let arguments = ["--profiler", "simple", "--filename", "F", "--dirpath", "logs"];
        let finished = run.args(arguments).succeed();
        let names = file_names(&directory.path().join("logs"));
        assert_eq!(names, ["fit-F-1.txt", "test-F-1.txt"], "{launcher:?}");
        assert!(!finished.stdout.contains("Profiler Report"), "{}", finished.stdout);
        assert!(!finished.stderr.contains("step/s"), "progress is rank 0's: {}", finished.stderr);
    }
}

/// Checks a full disk with `/dev/full`, which returns "no space left" for every write.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_costs_the_file_and_not_the_report() {
    let directory = tempdir().expect("a folder");
    let logs = directory.path().join("logs");
    fs::create_dir(&logs).expect("a folder");
    std::os::unix::fs::symlink("/dev/full", logs.join("fit-F.txt")).expect("a link");
    let run = Run::of(&program(), directory.path());
    let arguments = ["--epochs", "1", "--profiler", "simple", "--filename", "F"];
    let run = run.args(arguments).args(["--dirpath", "logs"]).succeed();
    assert_eq!(run.stderr.matches("cannot write").count(), 1, "{}", run.stderr);
    assert!(Table::find("FIT", &run.stdout).total.calls > 0, "the report is on the console");
    test_accuracy(&run.stdout);
}

#[test]
fn a_checkpoint_that_cannot_be_written_is_refused_before_the_first_batch() {
    let directory = tempdir().expect("a folder");
    fs::write(directory.path().join("taken"), "a file").expect("written");
    let run = Run::of(&program(), directory.path());
    let run = run.args(["--epochs", "1", "--profiler", "simple", "--checkpoint-dir", "taken"]);
    let run = run.finish();
    assert_eq!(run.status.code(), Some(1), "{run:#?}");
    assert!(run.stderr.contains("cannot write a checkpoint to "), "{}", run.stderr);
    let rows = Table::find("FIT", &run.stdout).rows;
    assert!(rows.iter().all(|row| row.action != "run_training_batch"), "before the first batch");
}

/// Checks that Python reads the share of waiting and the call relations from the JSON.
#[test]
fn json_is_read_by_python() {
    const SCRIPT: &str = r#"
import json, sys
fit, test = json.load(open(sys.argv[1]))
assert (fit["profiler"], fit["header"]["stage"], test["header"]["stage"]) == ("simple", "fit", "test")
assert fit["header"]["schema_version"] == 1 and fit["header"]["notes"] == [], fit["header"]
rows = {row["action"]: row for row in fit["actions"] if row["sub_stage"] is None}
epoch = rows["run_training_epoch"]
waiting = fit["data_waiting"]
assert 0 < waiting["waiting_seconds"] < waiting["epoch_seconds"] <= epoch["total_seconds"] * 1.001
assert {row["sub_stage"] for row in fit["actions"]} == {None, "sanity_check"}
# Self times add up to the time that the threads spent in actions.
main = max(fit["threads"], key=lambda thread: len(thread["actions"]))
own = sum(row["self_seconds"] for row in main["actions"] if not row["action"].startswith("process_startup"))
assert own <= fit["header"]["wall_seconds"] * 1.01, (own, fit["header"]["wall_seconds"])
assert own >= fit["header"]["wall_seconds"] * 0.8, (own, fit["header"]["wall_seconds"])
"#;
    let directory = tempdir().expect("a folder");
    let json = directory.path().join("report.json");
    let run = Run::of(&program(), directory.path()).args(["--epochs", "2"]);
    run.args(["--profiler", "simple", "--json"]).args([&json]).succeed();
    python::run(SCRIPT, &[&json]);
}

/// Checks that the bytes counted by the operating system for the action equal the file sizes on
/// disk.
#[cfg(target_os = "linux")]
#[test]
fn bytes_of_checkpoints_are_counted_to_the_last() {
    const SCRIPT: &str = r#"
import json, os, sys
fit = json.load(open(sys.argv[1]))[0]
rows = {row["action"]: row["io"] for row in fit["actions"] if row["sub_stage"] is None}
on_disk = sum(entry.stat().st_size for entry in os.scandir(sys.argv[2]))
assert on_disk > 10_000
assert rows["save_checkpoint"]["written_bytes"] == on_disk, (rows["save_checkpoint"], on_disk)
assert rows["run_training_batch"]["written_bytes"] == 0, rows["run_training_batch"]
"#;
    let directory = tempdir().expect("a folder");
    let (json, saved) = (directory.path().join("report.json"), directory.path().join("saved"));
    let run = Run::of(&program(), directory.path()).args(["--epochs", "2", "--measure-io"]);
    let run = run.args(["--profiler", "simple", "--checkpoint-dir", "saved", "--json"]);
    let run = run.args([&json]).succeed();
    assert!(run.stdout.contains("Bytes read and written"), "{}", run.stdout);
    python::run(SCRIPT, &[&json, &saved]);
}

/// Checks the page of a whole training, whose size does not depend on the number of steps.
#[test]
fn a_page_of_the_digits_is_small() {
    let start = |profiler: &'static str| {
        let directory = tempdir().expect("a folder");
        let run = Run::of(&program(), directory.path());
        let run = run.args(["--profiler", profiler, "--html", "page.html"]);
        (profiler, run.start(), directory)
    };
    // The runs are parallel, because their duration is not relevant.
    for (profiler, running, directory) in ["simple", "advanced", "tensor"].map(start) {
        let finished = running.finish();
        assert!(finished.status.success(), "{finished:#?}");
        let html = fs::read_to_string(directory.path().join("page.html")).expect("a page");
        println!("{profiler}: {} bytes", html.len());
        assert!(html.contains("<h2") && html.len() <= 300_000, "{profiler}: {} bytes", html.len());
    }
}
