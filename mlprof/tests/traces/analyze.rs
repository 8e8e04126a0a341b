//! Tests `mlprof analyze` as a command.

use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::{mlprof, path, text};

/// Trace of candle training steps on the digits data set, written by the Tensor profiler.
const DIGITS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/digits.pt.trace.json.gz");

/// Returns a slice as a JSON event, with times in microseconds.
fn slice(category: &str, name: &str, ts: u32, dur: u32) -> String {
    format!(
        r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{ts},"dur":{dur}}}"#
    )
}

/// Returns a trace with two steps of 100 µs.
fn trace() -> String {
    let step = |number: u32, ts: u32| {
        [
            slice("user_annotation", &format!("ProfilerStep#{number}"), ts, 100),
            slice("user_annotation", "[_TrainingEpochLoop].train_dataloader_next", ts, 25),
            slice("cpu_op", "aten::mm", ts + 30, 50),
        ]
        .join(",\n")
    };
    format!("{{\"traceEvents\":[{},\n{}],\"traceName\":\"x\"}}", step(1, 0), step(2, 100))
}

fn file(folder: &Path, name: &str, content: &[u8]) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, content).expect("a file");
    path
}

fn gzip(content: &str) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(content.as_bytes()).expect("memory takes everything");
    encoder.finish().expect("memory takes everything")
}

#[test]
fn tables_say_where_the_time_went() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = file(folder.path(), "a.json", trace().as_bytes());
    let output = mlprof(&["analyze", path(&file)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let printed = text(&output.stdout);
    for line in [
        "Trace: rank 0 of 1, 2 steps, 6 slices, 200 µs",
        "Time breakdown of steps",
        " 100 µs  50.00 %               ops  (in no action)",
        "50.0 µs  25.00 %  waiting for data  [_TrainingEpochLoop].train_dataloader_next",
        "Critical path of all steps",
        "50.00 %              0.00 %           25.00 %  25.00 %  thread 1",
    ] {
        assert!(printed.contains(line), "{line:?} is missing in:\n{printed}");
    }
}

/// Returns a trace with two steps of 10 ms. With `waits`, they wait for data a quarter of the time.
/// Otherwise they are healthy and compute almost all of the time.
fn long_trace(waits: bool) -> String {
    let step = |number: u32, ts: u32| {
        let waiting = if waits { 2_500 } else { 100 };
        [
            slice("user_annotation", &format!("ProfilerStep#{number}"), ts, 10_000),
            slice("user_annotation", "train_dataloader_next", ts, waiting),
            slice("cpu_op", "aten::mm", ts + waiting, 10_000 - waiting),
        ]
        .join(",\n")
    };
    format!("{{\"traceEvents\":[{},\n{}]}}", step(1, 0), step(2, 10_000))
}

#[test]
fn the_answers_begin_with_what_costs_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let slow = file(folder.path(), "slow.json", long_trace(true).as_bytes());
    let good = file(folder.path(), "good.json", long_trace(false).as_bytes());
    let printed = |arguments: &[&str]| {
        let output = mlprof(&[["analyze"].as_slice(), arguments].concat());
        assert!(output.status.success(), "{}", text(&output.stderr));
        text(&output.stdout)
    };
    let tables = printed(&[path(&slow)]);
    let line = "Finding: Steps wait for data for 5.00 ms of 20.0 ms (25.00 %). Up to 5.00 ms (25.00 %) can be \
                saved";
    let (finding, steps) = (tables.find(line), tables.find("\nSteps\n"));
    assert!(finding.is_some() && finding < steps, "{tables}");
    let none = "\nNo findings from data-waiting, unrecorded-time.\n";
    assert!(printed(&[path(&good)]).contains(none), "{}", printed(&[path(&good)]));
    let json: Value = serde_json::from_str(&printed(&[path(&slow), "--json"])).expect("JSON");
    let findings = json["traces"][0]["findings"].as_array().expect("findings");
    assert_eq!((findings.len(), &findings[0]["rule"]), (1, &Value::from("data-waiting")));
    assert_eq!(findings[0]["cost"]["seconds"], 0.005);
    assert_eq!(json["traces"][0]["checked_rules"][0], "data-waiting");
    let explained = printed(&[path(&good), "--explain-rules"]);
    for line in [
        "data-waiting: the training loop spends much of the time waiting for data",
        "   share = 0.1 (default 0.1): minimum share of the step time spent waiting",
        "   healthy: waiting: 200 µs, share: 1.00 %",
        "   no inputs: the trace has no device work",
    ] {
        assert!(explained.contains(line), "{line:?} is missing in:\n{explained}");
    }
}

#[test]
fn json_has_all_traces_of_a_folder() {
    let folder = tempfile::tempdir().expect("a folder");
    file(folder.path(), "b.pt.trace.json", trace().as_bytes());
    file(folder.path(), "a.pt.trace.json.gz", &gzip(&trace()));
    // Reports may lie beside traces and are ignored.
    file(folder.path(), "report.json", b"{\"profiler\":\"simple\"}");
    let output = mlprof(&["analyze", path(folder.path()), "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let traces = json["traces"].as_array().expect("traces");
    let names: Vec<_> = traces.iter().filter_map(|trace| trace["file"].as_str()).collect();
    assert!(names[0].ends_with("a.pt.trace.json.gz") && names[1].ends_with("b.pt.trace.json"));
    assert_eq!(names.len(), 2);
    for trace in traces {
        assert_eq!(trace["schema_version"], 2);
        let sum = |of: &Value| -> i64 {
            of.as_array().expect("parts").iter().filter_map(|it| it["duration_ns"].as_i64()).sum()
        };
        for (step, path) in [0, 1].map(|at| (&trace["steps"][at], &trace["critical_paths"][at])) {
            assert_eq!(step["duration_ns"], 100_000);
            assert_eq!(step["waiting_for_data_ns"], 25_000);
            assert_eq!(sum(&step["parts"]), 100_000);
            assert_eq!(sum(&path["parts"]), 100_000);
        }
    }
}

#[test]
fn a_page_has_what_can_be_read_and_is_written_over_no_trace() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = file(folder.path(), "good.json", trace().as_bytes());
    let bad = file(folder.path(), "bad.json", b"{\"traceEvents\":[]}");
    let page = folder.path().join("page.html");
    let output =
        mlprof(&["analyze", path(&good), path(&bad), "--html", path(&page), "--step", "2"]);
    assert_eq!(output.status.code(), Some(2), "{output:?}");
    assert!(output.stdout.is_empty());
    let html = std::fs::read_to_string(&page).expect("a page");
    for part in [
        "<td>waiting for data<td class=\"n b25\" data-v=5e-05>50.0 µs",
        "Critical path of step 2, 100 µs",
        "a trace is missing: cannot read ",
    ] {
        assert!(html.contains(part), "{part:?} is missing in:\n{html}");
    }
    let below_a_file = good.join("page.html");
    for (arguments, expected) in [
        ([path(&good), "--html", path(&good)], "good.json"),
        // The page would overwrite a trace inside the given folder.
        ([path(folder.path()), "--html", path(&good)], "good.json"),
        ([path(&good), "--report", path(&good)], "--html"),
        ([path(&good), "--html", path(&below_a_file)], "good.json/page.html"),
    ] {
        let output = mlprof(&[["analyze"].as_slice(), &arguments].concat());
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(text(&output.stderr).contains(expected), "{output:?}");
    }
    assert_eq!(std::fs::read_to_string(&good).expect("still there"), trace());
    // If no trace can be read, no page is written.
    let none = folder.path().join("none.html");
    let output = mlprof(&["analyze", path(&bad), "--html", path(&none)]);
    assert_eq!(output.status.code(), Some(2));
    assert!(!none.exists());
}

#[test]
fn a_cut_trace_is_read_as_far_as_it_goes() {
    let folder = tempfile::tempdir().expect("a folder");
    let whole = trace();
    let cut = file(folder.path(), "cut.json", &whole.as_bytes()[..whole.len() - 150]);
    let packed = gzip(&whole);
    let packed = file(folder.path(), "cut.json.gz", &packed[..packed.len() - 20]);
    for file in [cut, packed] {
        let output = mlprof(&["analyze", path(&file)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let printed = text(&output.stdout);
        let notes: Vec<_> = printed.lines().filter(|line| line.starts_with("Note: ")).collect();
        let [note] = notes[..] else { panic!("{printed}") };
        assert!(
            note.starts_with("Note: the end of the trace is missing: the file ends in the middle"),
            "{note}"
        );
    }
}

#[test]
fn unreadable_traces_print_one_sentence_and_others_are_analyzed() {
    let folder = tempfile::tempdir().expect("a folder");
    let good = file(folder.path(), "good.json", trace().as_bytes());
    let report = file(folder.path(), "report.json", b"{\"profiler\":\"simple\"}");
    let empty = file(folder.path(), "empty.json", b"{\"traceEvents\":[]}");
    let missing = folder.path().join("missing.json");
    for (bad, reason) in [
        (
            &report,
            "this is not a trace: no JSON object with \"traceEvents\" and no list of events, but an object \
             with \"profiler\"",
        ),
        (&empty, "the trace has no slices; record it again while the program works"),
        (&missing, "No such file or directory (os error 2)"),
    ] {
        let output = mlprof(&["analyze", path(bad), path(&good)]);
        assert_eq!(output.status.code(), Some(2));
        let expected = format!("error: cannot read {}: {reason}\n", bad.display());
        assert_eq!(text(&output.stderr), expected);
        assert!(text(&output.stdout).contains("2 steps"));
    }
    let nothing = tempfile::tempdir().expect("a folder");
    let output = mlprof(&["analyze", path(nothing.path())]);
    assert_eq!(output.status.code(), Some(2));
    assert!(text(&output.stderr).starts_with("error: cannot find a trace in "));
}

#[test]
fn a_real_trace_is_divided_up_exactly() {
    let output = mlprof(&["analyze", DIGITS, "--json"]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let trace = &json["traces"][0];
    let steps = trace["steps"].as_array().expect("steps");
    assert!(steps.len() >= 3, "{steps:?}");
    let sum = |of: &Value| -> i64 {
        of.as_array().expect("parts").iter().filter_map(|it| it["duration_ns"].as_i64()).sum()
    };
    for (at, step) in steps.iter().enumerate() {
        let took = step["duration_ns"].as_i64().expect("a time");
        assert_eq!(sum(&step["parts"]), took);
        assert_eq!(trace["critical_paths"][at]["length_ns"].as_i64(), Some(took));
        let actions = step["parts"].as_array().expect("parts").iter();
        let actions: Vec<_> = actions.filter_map(|part| part["action"].as_str()).collect();
        assert!(actions.iter().any(|action| action.ends_with(".backward")), "{actions:?}");
    }
    let devices = trace["devices"].as_array().expect("devices");
    assert!(devices.is_empty(), "it had none");
}

#[cfg(feature = "parquet")]
#[test]
fn tables_have_the_same_answers() {
    let folder = tempfile::tempdir().expect("a folder");
    let tables = folder.path().join("tables");
    let output = mlprof(&["convert", DIGITS, "--to", "parquet", "-o", path(&tables)]);
    assert!(output.status.success(), "{}", text(&output.stderr));
    assert_eq!(text(&output.stderr), format!("written: {}\n", tables.display()));
    let answers = |trace: &str| {
        let output = mlprof(&["analyze", trace, "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let mut json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        json["traces"][0].as_object_mut().expect("a trace").remove("file");
        json
    };
    assert_eq!(answers(path(&tables)), answers(DIGITS));
    let output = mlprof(&["schema"]);
    let schema = text(&output.stdout);
    assert!(schema.starts_with("Traces as Parquet, version 2."), "{schema}");
    for table in std::fs::read_dir(&tables).expect("a folder").flatten() {
        let name = table.file_name().to_string_lossy().into_owned();
        assert!(schema.contains(&format!("\n{name}: ")), "{name} is not in the schema");
    }
}

#[cfg(not(feature = "parquet"))]
#[test]
fn without_parquet_it_says_how_to_have_it() {
    for arguments in [&["convert", DIGITS, "--to", "parquet"][..], &["schema"]] {
        let output = mlprof(arguments);
        assert_eq!(output.status.code(), Some(2));
        assert!(text(&output.stderr).contains("--features parquet"), "{}", text(&output.stderr));
    }
}
