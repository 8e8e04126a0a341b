//! The Tensor report and its trace.

use std::path::{Path, PathBuf};

use tempfile::tempdir;
use tests::digits::{file_names, test_accuracy};
use tests::program::Run;
use tests::python;

use crate::program;

/// What every trace of two steps of the digits has, whatever the framework.
const TRACE: &str = r##"
import gzip, json, sys
trace = json.load(gzip.open(sys.argv[1], "rt", encoding="utf-8"))
assert trace["distributedInfo"]["rank"] == 0, trace["distributedInfo"]
slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
steps = [event for event in slices if event["name"].startswith("ProfilerStep#")]
assert [event["name"] for event in steps] == ["ProfilerStep#3", "ProfilerStep#4"], steps
assert steps[0]["ts"] + steps[0]["dur"] <= steps[1]["ts"], steps
def inside(step, name):
    begin, end = step["ts"], step["ts"] + step["dur"]
    return [e for e in slices if name in e["name"] and begin <= e["ts"] and e["ts"] + e["dur"] <= end]
for step in steps:
    for name, count in {"run_training_batch": 1, "[module]": 3, "optimizer_step": 1}.items():
        assert len(inside(step, name)) >= count, (step["name"], name, len(inside(step, name)))
    assert not inside(step, "validation"), step
tracks = {}
for event in slices:
    tracks.setdefault((event["pid"], event["tid"]), []).append((event["ts"], -event["dur"], event["name"]))
for track in tracks.values():
    open_until = []
    for start, negative, name in sorted(track):
        while open_until and open_until[-1] <= start + 1e-6:
            open_until.pop()
        assert not open_until or start - negative <= open_until[-1] + 2e-3, (name, start)
        open_until.append(start - negative)
print(len(slices))
"##;

fn trace_of(folder: &Path, stage: &str) -> PathBuf {
    let is_trace = |name: &&String| {
        name.starts_with(&format!("{stage}-F.")) && name.ends_with(".pt.trace.json.gz")
    };
    let names = file_names(folder);
    let traces: Vec<_> = names.iter().filter(is_trace).collect();
    assert_eq!(traces.len(), 1, "{names:?}");
    folder.join(traces[0])
}

#[test]
fn the_table_is_in_a_file_and_the_trace_beside_it() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "1", "--profiler", "tensor", "--dirpath", "D", "--filename", "F"];
    let schedule = ["--schedule", "wait=2,warmup=1,active=2", "--row-limit", "1000"];
    let run = Run::of(&program(), directory.path()).args(arguments).args(schedule).succeed();
    test_accuracy(&run.stdout);
    assert!(!run.stdout.contains("Profiler Report"), "{}", run.stdout);
    let folder = directory.path().join("D");
    let table = std::fs::read_to_string(folder.join("fit-F.txt")).expect("a report");
    for expected in [
        "FIT Profiler Report",
        "Self CPU %",
        "# of Calls",
        "ProfilerStep*",
        "run_training_batch",
        "[module]",
        "Self CPU time total: ",
    ] {
        assert!(table.contains(expected), "no {expected:?} in:\n{table}");
    }
    assert!(folder.join("test-F.txt").exists());
    let slices = python::run(TRACE, &[&trace_of(&folder, "fit")]);
    assert!(slices.trim().parse::<usize>().is_ok_and(|slices| slices > 20), "{slices}");
}

#[test]
fn a_run_shorter_than_the_schedule_says_so_and_keeps_what_it_has() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "1", "--profiler", "PyTorch", "--schedule", "wait=100000"];
    let run = Run::of(&program(), directory.path()).args(arguments).succeed();
    assert!(run.stdout.contains("100001"), "the first active step is named:\n{}", run.stdout);
    let schedule = ["--schedule", "wait=1,warmup=0,active=100000", "--row-limit", "1000"];
    let arguments = ["--epochs", "1", "--profiler", "tensor"].into_iter().chain(schedule);
    let run = Run::of(&program(), directory.path()).args(arguments).succeed();
    assert!(run.stdout.contains("run_training_batch"), "{}", run.stdout);
}
