//! Reads traces in XProf's format with its converters, and compares the numbers on its pages with
//! ours.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};
use tests::{program, python};

use crate::readers::answer;
use crate::training::{KERNEL_US, LAYERS, STEPS, record};

/// Python script that prints the tables behind XProf's pages for a file.
const PAGES: &str = r#"
import json, sys
from xprof.convert import raw_to_tool_data

def page(name):
    options = {"tqx": "", "host": "host", "hosts": ["host"], "use_saved_result": False}
    data, _ = raw_to_tool_data.xspace_to_tool_data([sys.argv[1]], name, options)
    page = json.loads(data)
    return page if isinstance(page, list) else [page]

def rows(table, *columns):
    places = [[column["id"] for column in table["cols"]].index(column) for column in columns]
    return [[row["c"][place].get("v") for place in places] for row in table["rows"]]

overview = page("overview_page")
inputs = page("input_pipeline_analyzer")
ops = page("framework_op_stats")[0]
kernels = page("kernel_stats")[0]
memory = page("memory_profile")[0]["memoryProfilePerAllocator"]
print(json.dumps({
    "device": [table["p"]["device_type"] for table in overview if "device_type" in table.get("p", {})],
    "steps": rows(overview[1], "stepnum", "stepTimeMs"),
    "input": rows(inputs[1], "stepnum", "infeedTimeMs", "stepTimeMs"),
    "ops": rows(ops, "host_or_device", "type", "operation", "occurrences", "total_time"),
    "kernels": rows(kernels, "kernel_name", "op_name", "occurrences", "total_duration_us", "grid_dim"),
    "memory": {name: of["profileSummary"]["peakBytesUsageLifetime"] for name, of in memory.items()},
}))"#;

fn pages(trace: &Path, folder: &Path) -> Value {
    let mlprof = program::build("mlprof", "mlprof");
    let space = folder.join("host.xplane.pb");
    let mut command = Command::new(mlprof);
    command.arg("convert").arg(trace).args(["--to", "xplane", "-o"]).arg(&space);
    let output = command.output().expect("it was built");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(said, format!("written: {}\n", space.display()));
    answer(&python::run_with_xprof(PAGES, &[&space]))
}

/// Returns the other columns of all rows whose first column begins with `first`.
fn rows_of<'found>(found: &'found Value, table: &str, first: &str) -> Vec<&'found [Value]> {
    let rows = found[table].as_array().expect("rows").iter();
    let rows = rows.map(|row| row.as_array().expect("a row").as_slice());
    rows.filter(|row| row[0] == first).map(|row| &row[1..]).collect()
}

fn is_about(value: &Value, expected: f64) {
    let value = value.as_f64().expect("a number");
    assert!((value - expected).abs() <= 0.01 * expected, "{value}, not {expected}");
}

#[test]
fn xprof_shows_a_devices_kernels_by_the_ops_that_launched_them() {
    let folder = tempfile::tempdir().expect("a folder");
    record(folder.path(), 0);
    let mut files = folder.path().read_dir().expect("a folder").flatten().map(|file| file.path());
    let trace = files.find(|path| path.to_string_lossy().ends_with(".gz")).expect("a trace");
    let found = pages(&trace, folder.path());
    assert_eq!(found["device"], json!(["Nvidia GPU"]));
    assert_eq!(found["steps"].as_array().map(Vec::len), Some(STEPS as usize), "{found}");
    // The kernel runs forward and backward in each step.
    let kernels = rows_of(&found, "kernels", "sgemm_128x64");
    assert_eq!(kernels.len(), LAYERS as usize, "by module: {kernels:?}");
    let each = 2 * STEPS;
    for layer in 1..=LAYERS {
        let op = format!("layers/{layer}/aten.addmm");
        let kernel = kernels.iter().find(|row| row[0] == json!(op)).expect("a row for each module");
        assert_eq!(kernel[1].as_f64(), Some(each as f64));
        is_about(&kernel[2], (each * KERNEL_US) as f64);
    }
    let on_device = rows_of(&found, "ops", "Device");
    let addmm = on_device.iter().filter(|row| row[0] == "addmm").count();
    assert_eq!(addmm, LAYERS as usize, "{on_device:?}");
    // This is the peak memory.
    assert_eq!(found["memory"], json!({"GPU_0": (1 << 16).to_string()}));
}

#[test]
fn xprof_shows_a_host_only_training_as_mlprof_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace");
    let trace = workspace.join("mlprof/tests/traces/digits.pt.trace.json.gz");
    let found = pages(&trace, folder.path());
    assert_eq!(found["device"], json!(["CPU"]));
    let mut command = Command::new(program::build("mlprof", "mlprof"));
    let output = command.arg("analyze").arg(&trace).arg("--json").output().expect("it was built");
    let own: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let steps = own["traces"][0]["steps"].as_array().expect("steps");
    let input = found["input"].as_array().expect("rows");
    assert_eq!(input.len(), steps.len());
    for (shown, step) in input.iter().zip(steps) {
        assert_eq!(shown[0], json!(format!("ProfilerStep {}", step["number"])));
        for (shown, own) in [(&shown[1], "waiting_for_data_ns"), (&shown[2], "duration_ns")] {
            let own = step[own].as_f64().expect("nanoseconds");
            assert!(own > 0.0);
            is_about(shown, own / 1e6);
        }
    }
}
