//! Tests of Parquet tables: their content and their place.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use mlprof_analysis::{Analysis, columns, kineto};
use mlprof_core::hook::OpStart;
use mlprof_core::tensor::{Cycle, Schedule};
use mlprof_core::{Action, Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler};

use crate::recorded::{action, kernel, op, run, text};

/// Returns a profiler that records every second step and writes its cycles as tables to `folder`.
fn profiler(folder: &Path) -> TensorProfiler {
    let schedule = Schedule::new().wait(1).warmup(0).active(1).repeat(0);
    let profiler = TensorProfiler::new().schedule(schedule);
    profiler.parquet(true).profile_memory(true).dirpath(folder).filename("run")
}

fn train(profiler: &TensorProfiler, steps: u32) {
    for step in 0..steps {
        let begin = Instant::now();
        action(profiler, "training_step", || {
            op(profiler, "aten::relu", || {});
            let mm = OpStart { sequence: step + 1, ..OpStart::new(Action::op("aten::mm")) };
            run(profiler, &mm, || {});
        });
        profiler.observe(&Observation::DeviceEvent(&kernel("gemm", step + 1, begin, 5, 20)));
        profiler.step();
    }
}

fn stage(profiler: &TensorProfiler, stage: Stage, run: &RunContext, steps: u32) {
    profiler.setup(stage, run);
    train(profiler, steps);
    profiler.teardown(Some(stage));
}

/// Returns all files below a folder, by relative path.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut all = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).expect("it is below").to_owned();
                all.insert(name, fs::read(path).expect("a file"));
            }
        }
    }
    all
}

fn names(folder: &Path, table: &str) -> Vec<String> {
    let entries = fs::read_dir(folder.join(table)).expect("a table");
    let name = |entry: std::io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
    let mut names: Vec<String> =
        entries.map(|entry| name(entry).into_string().expect("text")).collect();
    names.sort();
    names
}

/// Compares the tables with those of a written trace after `mlprof convert --to parquet`.
#[test]
fn tables_are_those_that_the_trace_is_converted_to() {
    let folder = tempfile::tempdir().expect("a folder");
    let converted = folder.path().join("converted");
    let place = converted.clone();
    let convert = move |cycle: &Cycle| {
        let trace = kineto::read(text(cycle).as_bytes()).expect("a trace");
        columns::write(&trace, &place).expect("written");
    };
    let profiler = profiler(folder.path()).on_trace_ready(convert);
    stage(&profiler, Stage::Fit, &RunContext::default().with_rank(1, 2), 4);
    let tables = folder.path().join("fit-run.parquet");
    let (found, expected) = (files(&tables), files(&converted));
    let names = |files: &BTreeMap<PathBuf, Vec<u8>>| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&found), names(&expected));
    assert_eq!(found.len(), 2 * columns::TABLES.len(), "two cycles, and nothing else is left");
    for (name, bytes) in found {
        assert!(bytes == expected[&name], "{} differs", name.display());
    }
    // The tables contain everything that queries need.
    let cycles = columns::find(&tables).expect("a folder");
    let trace = columns::read(&cycles[1]).expect("a trace");
    let analysis = Analysis::of(&trace);
    assert_eq!(analysis.steps.len(), 1);
    assert_eq!((trace.info.rank, trace.info.world_size, trace.info.cycle), (1, 2, 1));
    assert!(trace.slices.iter().any(|slice| trace.name(slice) == "gemm"));
    let sums = columns::read_rollups(&cycles[1]).expect("sums");
    assert!(sums.stages.iter().any(|stage| sums.name(stage.action) == "training_step"));
    // The report names the folder once.
    let report = profiler.report().expect("a report").to_json().expect("JSON");
    assert_eq!(report.matches("fit-run.parquet").count(), 1, "{report}");
}

#[test]
fn all_ranks_and_cycles_of_a_stage_are_in_one_folder_and_older_runs_are_not() {
    let folder = tempfile::tempdir().expect("a folder");
    for rank in 0..3 {
        stage(&profiler(folder.path()), Stage::Fit, &RunContext::default().with_rank(rank, 3), 6);
    }
    let fit = folder.path().join("fit-run.parquet");
    let expected: Vec<String> = (0..3)
        .flat_map(|rank| (0..3).map(move |cycle| format!("{rank}-{cycle}.parquet")))
        .collect();
    assert_eq!(names(&fit, "slices"), expected);
    // The next run is shorter and has fewer ranks. A file of the user must stay.
    fs::write(fit.join("slices/notes.parquet"), "mine").expect("written");
    for rank in 0..2 {
        let profiler = profiler(folder.path());
        let run = RunContext::default().with_rank(rank, 2);
        stage(&profiler, Stage::Fit, &run, 2);
        stage(&profiler, Stage::Test, &run, 2);
        stage(&profiler, Stage::Fit, &run, 4);
    }
    assert_eq!(names(&fit, "slices"), ["0-0.parquet", "1-0.parquet", "notes.parquet"]);
    assert_eq!(names(&fit, "clocks"), ["0-0.parquet", "1-0.parquet"]);
    let test = folder.path().join("test-run.parquet");
    assert_eq!(names(&test, "slices"), ["0-0.parquet", "1-0.parquet"]);
    let again = folder.path().join("fit-run-2.parquet");
    let expected = ["0-0.parquet", "0-1.parquet", "1-0.parquet", "1-1.parquet"];
    assert_eq!(names(&again, "slices"), expected);
}

/// Checks that a run continues if the folder cannot be created, and that the report gives the
/// reason.
#[test]
fn failed_writes_are_reported() {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("fit-run.parquet"), "a file").expect("written");
    let profiler = profiler(folder.path()).export_trace(false);
    stage(&profiler, Stage::Fit, &RunContext::default(), 4);
    let report = profiler.report().expect("a report").to_json().expect("JSON");
    assert!(report.contains("cannot write ") && report.contains("fit-run.parquet: "), "{report}");
    let left: Vec<PathBuf> = files(folder.path()).into_keys().collect();
    assert_eq!(left, [PathBuf::from("fit-run.parquet")]);
}
