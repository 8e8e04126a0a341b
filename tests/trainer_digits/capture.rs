//! Captures a running training with XProf's own client, and compares its pages with mlprof's own
//! trace of the same steps.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;
use tempfile::tempdir;
use tests::digits::test_accuracy;
use tests::program::{Run, Running, build};
use tests::python;

/// Message with the capture address, which the port follows.
const AT: &str = "mlprof: TensorBoard and XProf can capture this process at 127.0.0.1:";

/// Python script that captures like TensorBoard's button, and prints the tables behind the pages.
const CAPTURE: &str = r#"
import glob, json, re, sys
from xprof.convert import _pywrap_profiler_plugin as client, raw_to_tool_data

address, folder = "127.0.0.1:" + sys.argv[1], sys.argv[2]
levels = {"host_tracer_level": 2, "device_tracer_level": 1, "python_tracer_level": 0}
client.trace(address, folder, "", True, 600, 1, levels)
# Before the pages, which take longer than some trainings.
# On a busy machine no step may end while it looks.
for _ in range(10):
    monitor = client.monitor(address, 100, 1, False)
    if "(avg)" in monitor:
        break
[path] = glob.glob(folder + "/plugins/profile/*/*.xplane.pb")

def page(name):
    options = {"tqx": "", "host": "host", "hosts": ["host"], "use_saved_result": False}
    data, _ = raw_to_tool_data.xspace_to_tool_data([path], name, options)
    page = json.loads(data)
    return page if isinstance(page, list) else [page]

def rows(table, *columns):
    places = [[column["id"] for column in table["cols"]].index(column) for column in columns]
    return [[row["c"][place].get("v") for place in places] for row in table["rows"]]

overview = page("overview_page")
print(json.dumps({
    "overview": rows(overview[1], "stepnum", "stepTimeMs"),
    "input": rows(page("input_pipeline_analyzer")[1], "stepnum", "infeedTimeMs", "stepTimeMs"),
    "ops": rows(page("framework_op_stats")[0], "type", "operation", "occurrences"),
    "memory": sorted(page("memory_profile")[0]["memoryProfilePerAllocator"]),
    "said": [row for table in overview for row in table.get("rows", []) if "has no ops: " in json.dumps(row)],
    "monitor": monitor,
    "steps": sorted(int(number) for number in set(re.findall(rb"ProfilerStep#(\d+)", open(path, "rb").read()))),
}))"#;

/// Python script that prints the ops of each step in the program's own trace, with only the
/// characters that XProf keeps in names.
const OWN_OPS: &str = r##"
import collections, gzip, json, re, sys
events = json.load(gzip.open(sys.argv[1], "rt", encoding="utf-8"))["traceEvents"]
slices = [event for event in events if event["ph"] == "X"]
first, last = int(sys.argv[2]), int(sys.argv[3])
steps = {e["name"]: e for e in slices if e["name"].startswith("ProfilerStep#")}
begin = steps[f"ProfilerStep#{first}"]["ts"]
end = steps[f"ProfilerStep#{last}"]["ts"] + steps[f"ProfilerStep#{last}"]["dur"]
inside = (e for e in slices if e["cat"] == "cpu_op" and begin <= e["ts"] and e["ts"] + e["dur"] <= end)
known = lambda name: re.sub(r"[^A-Za-z0-9_./>-]", "_", name.replace("::", "."))
print(json.dumps(collections.Counter(known(e["name"]) for e in inside)))
"##;

/// Python script that sends the requests of TensorBoard's page when its button is pressed and
/// afterwards. It prints the response, the available runs, and the steps in the overview of the new
/// run.
const BUTTON: &str = r##"
import gzip, json, re, subprocess, sys, threading, urllib.parse, urllib.request

address, folder = "127.0.0.1:" + sys.argv[1], sys.argv[2]
command = [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--host", "127.0.0.1", "--port", "0"]
board = subprocess.Popen(command + ["--load_fast", "false"], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
try:
    said = (re.search(r"http://[^ /]+", line) for line in iter(board.stderr.readline, ""))
    url = next(found.group(0) for found in said if found)
    threading.Thread(target=board.stderr.read, daemon=True).start()

    def get(path, **query):
        asked = f"{url}/data/plugin/profile/{path}?{urllib.parse.urlencode(query)}"
        body = urllib.request.urlopen(asked, timeout=120).read()
        return json.loads(gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body)

    captured = get("capture_profile", service_addr=address, duration=300)
    [run] = get("runs")
    [host] = get("hosts", run=run, tag="overview_page")
    overview = get("data", run=run, tag="overview_page", host=host["hostname"])
    steps = [row["c"][0]["v"] for row in overview[1]["rows"]]
    print(json.dumps({"captured": captured, "host": host["hostname"], "steps": steps}))
finally:
    board.kill()
"##;

#[test]
fn tensorboards_button_captures_a_training_that_runs() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&crate::program(), directory.path()).args(["--epochs", "100000"]);
    let mut running = run.env("MLPROF_CAPTURE_PORT", "0").start();
    let port = running.rest_of_line(AT);
    running.wait_until_it_says("epoch 2/");
    let logs = directory.path().join("logs");
    std::fs::create_dir(&logs).expect("made");
    let printed = python::run_with_xprof(BUTTON, &[Path::new(&port), &logs]);
    running.interrupt();
    running.finish();
    let found: Value = serde_json::from_str(&printed).expect("JSON");
    let said = found["captured"]["result"].as_str().expect("text");
    assert!(said.starts_with("Capture profile successfully"), "{found}");
    assert_eq!(found["host"], format!("127.0.0.1_{}", port.trim()));
    let steps: Vec<String> = serde_json::from_value(found["steps"].clone()).expect("names");
    let number = |step: &String| -> u64 {
        let number = step.strip_prefix("ProfilerStep ").and_then(|number| number.parse().ok());
        number.unwrap_or_else(|| panic!("{step}"))
    };
    let numbers: Vec<u64> = steps.iter().map(number).collect();
    assert!(!numbers.is_empty(), "{found}");
    assert!(numbers.windows(2).all(|two| two[0] + 1 == two[1]), "one after the other: {numbers:?}");
}

fn capture(running: &mut Running, directory: &Path) -> Value {
    let port = running.rest_of_line(AT);
    running.wait_until_it_says("epoch 2/");
    let printed = python::run_with_xprof(CAPTURE, &[Path::new(&port), &directory.join("logs")]);
    // The client also prints its progress.
    let last = printed.trim_end().lines().next_back().unwrap_or_default();
    serde_json::from_str(last).unwrap_or_else(|error| panic!("{error}: {printed}"))
}

/// Returns the only trace of the training in a folder, and the result of `mlprof analyze` for it.
fn own(folder: &Path) -> (std::path::PathBuf, Value) {
    let traces = std::fs::read_dir(folder).expect("a folder").flatten().map(|entry| entry.path());
    let name = |path: &Path| path.file_name().expect("a name").to_string_lossy().into_owned();
    let is_trace = |path: &std::path::PathBuf| {
        name(path).starts_with("fit.") && name(path).ends_with(".pt.trace.json.gz")
    };
    let trace = traces.into_iter().find(is_trace).expect("a trace");
    let mut command = std::process::Command::new(build("mlprof", "mlprof"));
    let output = command.arg("analyze").arg(&trace).arg("--json").output().expect("it was built");
    assert!(output.status.success(), "{output:?}");
    let analyzed: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    (trace, analyzed["traces"][0].clone())
}

/// Compares two sets of values, which have the same begin and end times with a short delay. Returns
/// a description of the first difference.
fn is_not_about(shown: &Value, own: &Value, tolerance_ms: f64) -> Option<String> {
    let (shown, own) = (shown.as_f64().expect("ms"), own.as_f64().expect("ns") / 1e6);
    let is_about = (shown - own).abs() <= tolerance_ms + 0.05 * own;
    (!is_about).then(|| format!("{shown} ms, and {own} ms"))
}

#[test]
fn xprof_captures_a_training_that_runs() {
    let directory = tempdir().expect("a folder");
    let run = Run::of(&crate::program(), directory.path())
        // The training is long enough that the script finishes first, even on a loaded machine.
        .args(["--epochs", "80", "--profiler", "tensor", "--dirpath", "D"])
        .args(["--schedule", "wait=0,warmup=0,active=100000"])
        .env("MLPROF_CAPTURE_PORT", "0");
    let mut running = run.start();
    let found = capture(&mut running, directory.path());
    let finished = running.finish();
    assert!(finished.status.success(), "{finished:#?}");
    test_accuracy(&finished.stdout);

    let (trace, own) = own(&directory.path().join("D"));
    let input = found["input"].as_array().expect("rows");
    assert!(input.len() > 2, "{found}");
    assert_eq!(found["overview"].as_array().map(Vec::len), Some(input.len()));
    let number = |row: &Value| -> u64 {
        let text = row[0].as_str().and_then(|text| text.strip_prefix("ProfilerStep "));
        text.and_then(|number| number.parse().ok()).unwrap_or_else(|| panic!("{row}"))
    };
    let (first, last) = (number(&input[0]), number(&input[input.len() - 1]));
    let missing: Vec<u64> =
        (first..=last).filter(|it| !input.iter().any(|row| number(row) == *it)).collect();
    assert_eq!(missing, [0; 0], "of {first} to {last}");
    let mut others = Vec::new();
    for row in input {
        let steps = own["steps"].as_array().expect("steps");
        let step = steps.iter().find(|step| step["number"] == number(row)).expect("the same step");
        others.extend(is_not_about(&row[1], &step["waiting_for_data_ns"], 0.5));
        others.extend(is_not_about(&row[2], &step["duration_ns"], 0.5));
    }
    // Another program may use the core between the two clock readings.
    assert!(others.len() * 4 <= input.len(), "of {} steps: {others:#?}", input.len());

    let captured: Vec<u64> = serde_json::from_value(found["steps"].clone()).expect("numbers");
    println!("of the captured steps {captured:?} the page has {first} to {last}");
    let steps = [captured[0], captured[captured.len() - 1]].map(|number| number.to_string());
    let printed = python::run(OWN_OPS, &[&trace, Path::new(&steps[0]), Path::new(&steps[1])]);
    let own_ops: BTreeMap<String, u64> = serde_json::from_str(&printed).expect("JSON");
    let mut ops: BTreeMap<String, u64> = BTreeMap::new();
    for row in found["ops"].as_array().expect("rows").iter().filter(|row| row[0] != "IDLE") {
        // The module before the name is added by mlprof and is not relevant here.
        let name = row[1].as_str().and_then(|path| path.rsplit('/').next()).expect("a name");
        // The allocations of an op have a separate row, which does not represent a call.
        if name.ends_with("(memory)") {
            continue;
        }
        *ops.entry(name.to_owned()).or_default() += row[2].as_f64().expect("a number") as u64;
    }
    assert_eq!(ops, own_ops);
    assert_eq!(!ops.is_empty(), crate::TELLS_OF_OPS);
    // The page notes the reason if the framework does not report ops.
    let said = found["said"].to_string();
    assert_eq!(said.contains("the recording has no ops"), !crate::TELLS_OF_OPS, "{said}");
    // The response follows the capture, which shows that the training continued.
    let monitor = found["monitor"].as_str().expect("text");
    assert!(monitor.contains("Stage: fit, ") && monitor.contains("(avg), "), "{monitor}");
}
