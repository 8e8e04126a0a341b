//! Reads traces in Perfetto's format with trace_processor, the engine behind Perfetto's web page.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

use serde_json::Value;
use tests::program;

use crate::readers::answer;
use crate::trace_processor;
use crate::training::record;

/// Returns the folder of trace_processor, and the script that queries it.
fn program_and_script() -> &'static (PathBuf, PathBuf) {
    static MADE: OnceLock<(PathBuf, PathBuf)> = OnceLock::new();
    MADE.get_or_init(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("traces/trace_processor.mjs");
        let folder = trace_processor::install(&tests::target_directory());
        (folder.unwrap_or_else(|message| panic!("{message}")), script)
    })
}

/// Returns the rows of each query's result.
fn ask(trace: &Path, questions: &[&str]) -> Vec<Vec<Value>> {
    let (folder, script) = program_and_script();
    let mut node = Command::new("node");
    node.arg(script).arg(folder).arg(trace).args(questions).stdin(Stdio::null());
    let output = node.output().unwrap_or_else(|error| panic!("cannot run node: {error}"));
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let answers = answer(&String::from_utf8_lossy(&output.stdout));
    serde_json::from_value(answers).expect("a list of lists")
}

/// Converts a trace and returns the command's messages.
fn convert(trace: &Path, to: &Path) -> String {
    let mlprof = program::build("mlprof", "mlprof");
    let mut command = Command::new(mlprof);
    let output = command.arg("convert").arg(trace).args(["--to", "pftrace", "-o"]).arg(to).output();
    let output = output.expect("it was built");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    said
}

fn events(trace: &Path) -> Vec<Value> {
    let unpacked = "import gzip, sys; print(gzip.open(sys.argv[1], 'rt', encoding='utf-8').read())";
    let text = tests::python::run(unpacked, &[trace]);
    let trace: Value = serde_json::from_str(&text).expect("JSON");
    trace["traceEvents"].as_array().expect("events").clone()
}

fn nanoseconds(microseconds: &Value) -> i64 {
    (microseconds.as_f64().expect("a time") * 1e3).round() as i64
}

const ERRORS: &str =
    "select name, value from stats where severity in ('error', 'data_loss') and value != 0";

/// All slices in order, each with name, category, start and duration.
type Slices = Vec<(String, String, i64, i64)>;

fn slices_of(events: &[Value]) -> Slices {
    let slices = events.iter().filter(|event| event["ph"] == "X").map(|event| {
        let text = |key: &str| event[key].as_str().unwrap_or("other").to_owned();
        (text("name"), text("cat"), nanoseconds(&event["ts"]), nanoseconds(&event["dur"]))
    });
    let mut slices: Slices = slices.collect();
    slices.sort();
    slices
}

const SLICES: &str = "select name, category, ts, dur from slice";

fn slices_in(rows: &[Value]) -> Slices {
    let mut slices: Slices =
        rows.iter().map(|row| serde_json::from_value(row.clone()).expect("a slice")).collect();
    slices.sort();
    slices
}

#[test]
fn trace_processor_finds_all_that_was_recorded() {
    let folder = tempfile::tempdir().expect("a folder");
    record(folder.path(), 0);
    let mut entries =
        folder.path().read_dir().expect("a folder").flatten().map(|entry| entry.path());
    let is_trace = |path: &PathBuf| path.to_string_lossy().ends_with(".pt.trace.json.gz");
    let trace = entries.find(is_trace).expect("a trace");
    let native = folder.path().join("native.pftrace");
    let said = convert(&trace, &native);
    assert_eq!(said, format!("written: {}\n", native.display()));
    let found = ask(
        &native,
        &[
            ERRORS,
            SLICES,
            "select count(*) from flow",
            "select a.category, b.category, count(*) from flow f join slice a on a.id = f.slice_out \
             join slice b on b.id = f.slice_in where a.ts <= b.ts group by 1, 2 order by 1, 2",
            "select t.name, c.ts, c.value from counter c join track t on t.id = c.track_id",
            "select distinct thread.name, process.pid, process.name from slice \
             join thread_track on thread_track.id = slice.track_id join thread using (utid) \
             join process using (upid)",
            "select t.name, p.name, count(*) from slice s join track t on t.id = s.track_id \
             join track p on p.id = t.parent_id group by 1, 2",
            "select count(*), sum(a.int_value) from slice s join args a using (arg_set_id) \
             where a.key = 'debug.correlation'",
            "select distinct a.string_value from slice s join args a using (arg_set_id) \
             where a.key = 'debug.Input Dims' order by 1",
        ],
    );
    let events = events(&trace);
    assert_eq!(found[0], [] as [Value; 0]);
    assert_eq!(slices_in(&found[1]), slices_of(&events), "to the nanosecond");
    let of_phase =
        |phase: &str| events.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
    let arrows = of_phase("s");
    assert_eq!(found[2][0][0], arrows.len());
    let kinds = |kind: &str| arrows.iter().filter(|arrow| arrow["cat"] == kind).count();
    let mut ends: BTreeMap<String, u64> = BTreeMap::new();
    for row in &found[3] {
        let end = format!("{} {}", row[0].as_str().unwrap_or(""), row[1].as_str().unwrap_or(""));
        ends.insert(end, row[2].as_u64().expect("a count"));
    }
    assert_eq!(ends["cpu_op cpu_op"], kinds("fwdbwd") as u64, "{ends:?}");
    let launched = ends.iter().filter(|(end, _)| end.starts_with("cuda_runtime "));
    assert_eq!(launched.map(|(_, count)| count).sum::<u64>(), kinds("ac2g") as u64, "{ends:?}");
    let counter = |name: &Value, time: i64, value: &Value| {
        (
            name.as_str().expect("a name").to_owned(),
            time,
            value.as_f64().expect("a number").to_bits(),
        )
    };
    let mut counters: Vec<_> = of_phase("C")
        .into_iter()
        .map(|event| counter(&event["name"], nanoseconds(&event["ts"]), &event["args"]["value"]))
        .collect();
    let mut there: Vec<_> = found[4]
        .iter()
        .map(|row| counter(&row[0], row[1].as_i64().expect("a time"), &row[2]))
        .collect();
    counters.sort();
    there.sort();
    assert_eq!(there, counters);
    assert!(!there.is_empty());
    let threads = &found[5];
    assert_eq!(threads.len(), 1, "{threads:?}");
    assert_eq!(threads[0][1].as_u64(), Some(std::process::id().into()));
    assert_eq!(found[6].len(), 1, "{:?}", found[6]);
    assert_eq!(found[6][0][0], "stream 7");
    assert!(
        found[6][0][1].as_str().is_some_and(|name| name.starts_with("GPU 0")),
        "{:?}",
        found[6]
    );
    let correlations = events.iter().filter_map(|event| event["args"]["correlation"].as_u64());
    let correlations: Vec<u64> = correlations.collect();
    assert_eq!(found[7][0][0], correlations.len());
    assert_eq!(found[7][0][1], correlations.iter().sum::<u64>());
    let mut shapes: Vec<String> = events
        .iter()
        .filter_map(|event| event["args"].get("Input Dims"))
        .map(Value::to_string)
        .collect();
    shapes.sort();
    shapes.dedup();
    let found: Vec<String> =
        found[8].iter().map(|row| row[0].as_str().expect("text").replace(' ', "")).collect();
    assert_eq!(found, shapes);
}

/// Checks slices that other converters lose: partially overlapping ones, empty ones, deeply nested
/// ones, and those before time zero.
#[test]
fn no_slice_is_lost() {
    let folder = tempfile::tempdir().expect("a folder");
    let slice = |name: &str, thread: &str, start: f64, duration: f64| serde_json::json!({"ph": "X", "cat": "cpu_op", "name": name, "pid": 1, "tid": thread, "ts": start, "dur": duration});
    let mut events = vec![
        slice("outer", "1", -20.5, 30.0),
        slice("late", "1", 0.001, 15.0),
        slice("later", "1", 0.002, 25.0),
        slice("nothing", "1", 9.5, 0.0),
        slice("nothing at the end", "1", 25.002, 0.0),
        slice("after", "1", 25.002, 0.5),
        // The values include numbers that exceed 32 bits, and missing ones.
        slice("large", "8589934592", 1.0, 2.0),
        slice("text", "all", 1.0, 2.0),
        slice("\"quoted\" \u{1f525};\n", "1", 50.0, 1.0),
    ];
    let depth = 1_300;
    let deep = (0..depth).map(|level| {
        slice(&format!("level {level}"), "2", f64::from(level), f64::from(2 * (depth - level)))
    });
    events.extend(deep);
    let json = folder.path().join("others.json");
    let text = serde_json::json!({ "traceEvents": events }).to_string();
    fs::write(&json, text).expect("written");
    let native = folder.path().join("others.pftrace");
    let said = convert(&json, &native);
    assert!(!said.contains("note: "), "{said}");
    let found = ask(&native, &[ERRORS, SLICES, "select count(*) from slice where dur < 0"]);
    assert_eq!(found[0], [] as [Value; 0]);
    let mut expected = slices_of(&events);
    // Perfetto does not support times before zero, so all times are shifted.
    expected.iter_mut().for_each(|(.., start, _)| *start += 20_500);
    assert_eq!(slices_in(&found[1]), expected);
    assert_eq!(found[2][0][0], 0, "all of them end");
}

/// Checks flow arrows whose end is before their start.
#[test]
fn arrows_that_lead_back_in_time_are_said() {
    let folder = tempfile::tempdir().expect("a folder");
    let slice = |name: &str, thread: u32, start: u32| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":1,"tid":{thread},"ts":{start},"dur":5}}"#
        )
    };
    let arrow = |phase: &str, id: u32, thread: u32, time: u32| {
        format!(
            r#"{{"ph":"{phase}","bp":"e","cat":"fwdbwd","name":"fwdbwd","id":{id},"pid":1,"tid":{thread},"ts":{time}}}"#
        )
    };
    let events = [
        slice("a", 1, 10),
        slice("b", 2, 20),
        slice("c", 3, 0),
        slice("d", 4, 10),
        arrow("s", 1, 1, 10),
        arrow("f", 1, 2, 20),
        arrow("s", 2, 1, 10),
        arrow("f", 2, 3, 0),
        // This is a pair of opposite arrows at the same time.
        arrow("s", 3, 1, 10),
        arrow("f", 3, 4, 10),
        arrow("s", 4, 4, 10),
        arrow("f", 4, 1, 10),
    ];
    let json = folder.path().join("back.json");
    fs::write(&json, format!("{{\"traceEvents\":[{}]}}", events.join(","))).expect("written");
    let native = folder.path().join("back.pftrace");
    let said = convert(&json, &native);
    assert!(said.contains("note: 2 of 4 arrows are omitted: they point back in time"), "{said}");
    let names = "select a.name, b.name from flow f join slice a on a.id = f.slice_out \
                 join slice b on b.id = f.slice_in order by 1, 2";
    let found = ask(&native, &[ERRORS, names]);
    assert_eq!(found[0], [] as [Value; 0]);
    assert_eq!(found[1], [serde_json::json!(["a", "b"]), serde_json::json!(["a", "d"])]);
}
