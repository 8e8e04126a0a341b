//! Checks traces of training steps with Python.

use std::path::{Path, PathBuf};

use crate::digits::file_names;
use crate::python;

/// Python script that checks a trace of any framework:
///
/// - It contains these steps in this order.
/// - Each step contains these slices at least the given number of times, and no validation.
/// - Slices of a track do not overlap partially.
const STEPS: &str = r##"
import gzip, json, sys
path, expected_steps, expected_slices = sys.argv[1], sys.argv[2].split(","), sys.argv[3:]
trace = json.load(gzip.open(path, "rt", encoding="utf-8"))
assert trace["distributedInfo"]["rank"] == 0, trace["distributedInfo"]
slices = [event for event in trace["traceEvents"] if event["ph"] == "X"]
steps = sorted((e for e in slices if e["name"].startswith("ProfilerStep#")), key=lambda e: e["ts"])
assert [event["name"] for event in steps] == expected_steps, steps
for step, next_step in zip(steps, steps[1:]):
    assert step["ts"] + step["dur"] <= next_step["ts"] + 2e-3, (step, next_step)
def inside(step, name):
    begin, end = step["ts"], step["ts"] + step["dur"]
    return [e for e in slices if name in e["name"] and begin <= e["ts"] and e["ts"] + e["dur"] <= end]
for step in steps:
    for expected in expected_slices:
        name, count = expected.rsplit("=", 1)
        assert len(inside(step, name)) >= int(count), (step["name"], name, len(inside(step, name)))
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
"##;

/// Checks the trace at `path`: its `steps`, and the minimum number of slices in each step whose
/// names contain the given parts.
pub fn check_steps(path: &Path, steps: &[&str], slices: &[(&str, usize)]) {
    let steps = steps.join(",");
    let slices: Vec<String> =
        slices.iter().map(|(name, count)| format!("{name}={count}")).collect();
    let arguments: Vec<&Path> =
        [path, Path::new(&steps)].into_iter().chain(slices.iter().map(Path::new)).collect();
    python::run(STEPS, &arguments);
}

/// Returns the only trace in `folder` of a stage's reports, such as `fit-run`.
pub fn of_stage(folder: &Path, reports: &str) -> PathBuf {
    let is_trace = |name: &&String| {
        name.starts_with(&format!("{reports}.")) && name.ends_with(".pt.trace.json.gz")
    };
    let names = file_names(folder);
    let traces: Vec<_> = names.iter().filter(is_trace).collect();
    assert_eq!(traces.len(), 1, "{names:?}");
    folder.join(traces[0])
}
