//! Checks the results of the trace readers.

use std::path::Path;
use std::sync::OnceLock;

use mlprof_core::hook::DeviceCounter;
use serde_json::{Value, json};
use tests::python;

use crate::training::{BATCH, KERNEL_US, LAYERS, STEPS, record};

/// Returns a folder with the traces of two ranks.
fn traces() -> &'static Path {
    static TRACES: OnceLock<tempfile::TempDir> = OnceLock::new();
    let directory = TRACES.get_or_init(|| {
        let recorded = (0..100).map(|_| {
            let directory = tempfile::tempdir().expect("a temporary directory");
            let are_behind = (0..2).all(|rank| record(directory.path(), rank));
            (directory, are_behind)
        });
        // A training takes two milliseconds, so an undisturbed run is found soon, even on a loaded
        // machine.
        let mut found =
            recorded.filter_map(|(directory, are_behind)| are_behind.then_some(directory));
        found.next().expect("a host that is ahead of its device")
    });
    directory.path()
}

/// Parses the last line of a script's output as JSON.
pub fn answer(printed: &str) -> Value {
    let last = printed.lines().last().expect("an answer");
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error} in {last}"))
}

#[test]
fn holistic_trace_analysis_breaks_the_training_down() {
    let script = r#"
import json, sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_dir=sys.argv[1])
types, kernels = analysis.get_gpu_kernel_breakdown(visualize=False, num_kernels=10)
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
copies = analysis.get_cuda_kernel_launch_stats(visualize=False, include_memory_events=True)[0]
idle, _ = analysis.get_idle_time_breakdown(visualize=False)
temporal = analysis.get_temporal_breakdown(visualize=False)
ops = analysis.get_aten_op_kernels_and_delay()[0]
bandwidth = analysis.get_memory_bw_summary()
queue = analysis.get_queue_length_summary()
_, critical = analysis.critical_path_analysis(0, "ProfilerStep", 0)
print(json.dumps({
    "ranks": sorted(int(rank) for rank in analysis.t.traces),
    "steps": [int(step) for step in analysis.get_profiler_steps()],
    "types": types.set_index("kernel_type")["sum"].astype(float).to_dict(),
    "kernels": [[row["name"], int(row["rank"]), float(row["sum (us)"])] for _, row in kernels.iterrows()],
    "launches": len(launches),
    "launched": int(copies["correlation"].nunique()),
    "least_delay": float(launches["launch_delay"].min()),
    "gpu_duration": float(launches["gpu_duration"].median()),
    "idle_streams": sorted({int(stream) for stream in idle["stream"]}),
    "compute": temporal["compute_time(us)"].astype(float).tolist(),
    "ops": sorted(ops["aten_op_name"]),
    "sequences": sorted(set(ops["kernel_sequence"])),
    "bandwidth": float(bandwidth[("memory_bw_gbps", "max")].iloc[0]),
    "longest_queue": float(queue[("queue_length", "max")].max()),
    "critical": bool(critical),
}))"#;
    let found = answer(&python::run_with_trace_readers(script, &[traces()]));
    assert_eq!(found["ranks"], json!([0, 1]));
    // The reader ignores the last step, which may be incomplete.
    let steps = STEPS - 1;
    assert_eq!(found["steps"], json!([2, 3]));
    let kernels = u64::from(LAYERS) * 2 * steps;
    let number = |key: &str| found[key].as_f64().unwrap_or_else(|| panic!("{key}: {}", found[key]));
    assert_eq!(number("launches") as u64, kernels + 2 * steps);
    assert_eq!(number("launched") as u64, kernels + 2 * steps, "every launch has its kernel");
    assert!(number("least_delay") >= 0.0);
    // The reader rounds times down to microseconds.
    let about = |value: f64, expected: f64| (value - expected).abs() <= 0.01 * expected;
    assert!(about(number("gpu_duration"), KERNEL_US as f64), "{found}");
    let sum = found["types"]["COMPUTATION"].as_f64().expect("kernels");
    assert!(about(sum, (2 * kernels * KERNEL_US) as f64), "both ranks: {sum}");
    let sum = found["types"]["MEMORY"].as_f64().expect("copies");
    assert!(about(sum, (2 * 2 * steps * KERNEL_US) as f64), "both ranks: {sum}");
    let names: Vec<&str> = found["kernels"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| row[0].as_str().expect("a name"))
        .collect();
    for name in ["sgemm_128x64", "Memcpy HtoD (Pageable -> Device)", "Memset (Device)"] {
        assert_eq!(names.iter().filter(|other| **other == name).count(), 2, "{name} on both ranks");
    }
    assert_eq!(found["idle_streams"], json!([7]));
    assert!(
        found["compute"].as_array().expect("ranks").iter().all(|time| time.as_f64() > Some(0.0))
    );
    assert_eq!(found["sequences"], json!(["sgemm_128x64"]));
    assert!(found["ops"].as_array().expect("ops").contains(&json!("aten::addmm")), "{found}");
    let bandwidth = BATCH as f64 / (KERNEL_US as f64 * 1000.0);
    assert!(about(number("bandwidth"), bandwidth), "{found}");
    assert!(number("longest_queue") >= 1.0);
    assert_eq!(found["critical"], true);
}

#[test]
fn tensorboards_plugin_loads_every_worker() {
    let script = r#"
import json, sys
from torch_tb_profiler import io
from torch_tb_profiler.profiler.loader import RunLoader

cache = io.Cache()
with cache:
    run = RunLoader("run", sys.argv[1], cache).load()
profile = run.profiles[("worker1", "1")]
rows = profile.operation_table_by_name["data"]
shaped = profile.operation_table_by_name_input["data"]
kernels = profile.kernel_table["data"]["rows"]
print(json.dumps({
    "workers": run.workers,
    "views": sorted(view.display_name for view in profile.views),
    "steps": [row[0] for row in profile.overview["steps"]["rows"]],
    "ops": {row["name"]: row["calls"] for row in rows},
    "shapes": {row["name"]: row["input_shape"] for row in shaped},
    "stacked": [row["name"] for row in rows if row["has_call_stack"]],
    "stacks": {row["call_stack"]: row["calls"]
               for row in profile.operation_stack_by_name["aten::addmm"]["data"]},
    "kernels": {row[0]: [row[2], row[3]] for row in kernels},
    "memory": sorted(profile.memory_snapshot.get_peak_memory().values()) if profile.memory_snapshot else [],
}))"#;
    let found = answer(&python::run_with_trace_readers(script, &[traces()]));
    assert_eq!(found["workers"], json!(["worker0", "worker1"]));
    assert_eq!(found["views"], json!(["Kernel", "Memory", "Operator", "Overview", "Trace"]));
    assert_eq!(found["steps"], json!(["2", "3", "4"]));
    let layers = u64::from(LAYERS) * STEPS;
    let ops = json!({"aten::linear": layers, "AddmmBackward0": layers, "aten::addmm": 2 * layers});
    assert_eq!(found["ops"], ops);
    assert_eq!(found["shapes"]["aten::linear"], "[[64, 128], [128, 10], []]");
    assert_eq!(found["stacked"].as_array().map(Vec::len), Some(3), "{found}");
    let mut stacks = serde_json::Map::new();
    for layer in 1..=LAYERS {
        let stack = format!("[module]Linear: layers.{layer};[Strategy]SingleDevice.training_step;");
        stacks.insert(stack, STEPS.into());
    }
    stacks.insert("[Strategy]SingleDevice.backward;".to_owned(), layers.into());
    assert_eq!(found["stacks"], Value::Object(stacks));
    let kernels = json!({"sgemm_128x64": [2 * layers, 2 * layers * KERNEL_US]});
    assert_eq!(found["kernels"], kernels);
    assert_eq!(found["memory"], json!([1 << 16]));
}

#[test]
fn python_reads_every_event() {
    let script = r#"
import collections, glob, gzip, json, sys
path = sorted(glob.glob(sys.argv[1] + "/worker1.*.pt.trace.json.gz"))[0]
trace = json.load(gzip.open(path, "rt", encoding="utf-8"))
events = trace["traceEvents"]
print(json.dumps({
    "rank": trace["distributedInfo"]["rank"],
    "categories": collections.Counter(event["cat"] for event in events if event["ph"] == "X"),
    "phases": collections.Counter(event["ph"] for event in events if event["ph"] != "M"),
    "names": sorted({event["name"] for event in events if event["name"].startswith("optimizer_step")}),
    "integers": all(isinstance(event[key], int) for event in events for key in ("pid", "tid")),
}))"#;
    let found = answer(&python::run(script, &[traces()]));
    let layers = u64::from(LAYERS);
    let launches = (2 * layers + 2) * STEPS;
    assert_eq!(found["rank"], 1);
    let categories = json!({
        "cpu_op": 4 * layers * STEPS,
        "user_annotation": (5 + layers) * STEPS,
        "cuda_runtime": launches,
        "kernel": 2 * layers * STEPS,
        "gpu_memcpy": STEPS,
        "gpu_memset": STEPS,
        // All annotations except the step itself contain kernels of the only stream.
        "gpu_user_annotation": (4 + layers) * STEPS,
    });
    assert_eq!(found["categories"], categories);
    let annotations = (5 + layers) * STEPS + (4 + layers) * STEPS;
    let slices: u64 = 4 * layers * STEPS + annotations + 2 * launches;
    let arrows = launches + layers * STEPS;
    let samples = 2 * DeviceCounter::ALL.len() as u64 * STEPS;
    let memory = 4 * layers * STEPS;
    let phases = json!({"X": slices, "i": memory, "s": arrows, "f": arrows, "C": samples});
    assert_eq!(found["phases"], phases);
    assert_eq!(found["names"], json!(["optimizer_step \"sgd\"\u{1}"]));
    assert_eq!(found["integers"], true);
}
