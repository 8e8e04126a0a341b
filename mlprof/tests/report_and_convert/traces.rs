//! Tests `mlprof convert` with traces.

use std::io::Read;

use mlprof_core::trace::flame;
use serde_json::Value;

use crate::runs::{Folder, Recorded, mlprof, printed, refused, tensor, text};

fn unpacked(recorded: &Recorded) -> String {
    let mut json = String::new();
    let file = std::fs::File::open(&recorded.trace).expect("a trace");
    flate2::read::GzDecoder::new(file).read_to_string(&mut json).expect("a whole file");
    json
}

#[test]
fn folded_stacks_are_those_that_the_profiler_itself_writes() {
    let folder = Folder::new();
    let recorded = tensor(&folder);
    let folded = printed(&["convert", text(&recorded.trace), "--to", "folded", "-o", "-"]);
    assert_eq!(folded, recorded.folded);
    for stack in [
        "ProfilerStep*;training_step;linear;matmul ",
        "ProfilerStep*;training_step;relu, in place ",
        "ProfilerStep*;training_step;cudaLaunchKernel ",
    ] {
        assert!(folded.contains(stack), "{stack} is missing in {folded}");
    }
    assert!(!folded.contains("gemm"), "that ran on a device: {folded}");
}

#[test]
fn for_chrome_a_trace_is_only_unpacked() {
    let folder = Folder::new();
    let recorded = tensor(&folder);
    printed(&["convert", text(&recorded.trace), "--to", "chrome"]);
    let plain = std::fs::read_to_string(folder.path().join("run.pt.trace.json")).expect("a trace");
    assert_eq!(plain, unpacked(&recorded));
    assert_eq!(printed(&["convert", text(&recorded.trace), "--to", "json"]), plain);
    let file = folder.path().join("run.pt.trace.json");
    let error = refused(&["convert", text(&file), "--to", "chrome"]);
    assert!(error.contains("it is the input file"), "{error}");
}

#[test]
fn speedscope_shows_what_happened_when() {
    let folder = Folder::new();
    let recorded = tensor(&folder);
    let trace: Value = serde_json::from_str(&unpacked(&recorded)).expect("JSON");
    let slices = trace["traceEvents"].as_array().expect("events");
    let slices: Vec<&Value> = slices.iter().filter(|event| event["ph"] == "X").collect();
    let nanoseconds = |value: &Value| (value.as_f64().expect("a time") * 1e3).round() as i64;
    let begin = slices.iter().map(|slice| nanoseconds(&slice["ts"])).min().expect("slices");

    printed(&["convert", text(&recorded.trace), "--to", "speedscope"]);
    let json = std::fs::read_to_string(folder.path().join("run.speedscope.json")).expect("a file");
    let json: Value = serde_json::from_str(&json).expect("JSON");
    let frames = json["shared"]["frames"].as_array().expect("frames");
    let profiles = json["profiles"].as_array().expect("profiles");
    let mut found = Vec::new();
    for profile in profiles {
        assert_eq!(profile["type"], "evented");
        let (mut open, mut last) = (Vec::new(), 0);
        for event in profile["events"].as_array().expect("events") {
            let (at, frame) = (event["at"].as_i64().expect("a time"), event["frame"].as_u64());
            assert!(at >= last && Some(at) <= profile["endValue"].as_i64(), "{event}");
            last = at;
            let frame = frame.expect("a number");
            match event["type"].as_str() {
                Some("O") => open.push((frame, at)),
                Some("C") => {
                    let (opened, start) = open.pop().expect("something is open");
                    assert_eq!(opened, frame, "the innermost closes first");
                    let name = frames[frame as usize]["name"].as_str().expect("a name");
                    found.push((name.to_owned(), start + begin, at - start));
                }
                other => panic!("{other:?}"),
            }
        }
        assert!(open.is_empty());
    }
    let mut expected: Vec<(String, i64, i64)> = slices
        .iter()
        .map(|slice| {
            let name = slice["name"].as_str().expect("a name").to_owned();
            (name, nanoseconds(&slice["ts"]), nanoseconds(&slice["dur"]))
        })
        .collect();
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let names: Vec<_> = profiles.iter().filter_map(|profile| profile["name"].as_str()).collect();
    assert_eq!(names.len(), 2, "a thread and a stream: {names:?}");
    assert!(names[1].ends_with(" of GPU 0"), "{names:?}");
}

#[test]
fn slices_that_outlive_what_is_around_them_are_counted_once_and_said() {
    let folder = Folder::new();
    let slice = |name: &str, ts: &str, dur: &str| {
        format!(
            r#"{{"ph":"X","cat":"cpu_op","name":"{name}","pid":"Spans","tid":1,"ts":{ts},"dur":{dur}}}"#
        )
    };
    // The slices are not sorted. The inner slices end together with the outer ones, or later.
    let slices = [
        slice("late", "105", "10"),
        slice("inner", "100.5", "9.5"),
        slice("outer", "100.0", "10.000"),
        slice("instant", "110", "0"),
        slice("after", "116", "1.5"),
    ];
    let json =
        format!(r#"{{"schemaVersion":1,"traceEvents":[{}],"traceName":"x"}}"#, slices.join(","));
    let file = folder.file("other.json", json);
    let output = mlprof(&["convert", text(&file), "--to", "folded", "-o", "-"]);
    assert!(output.status.success());
    let folded = String::from_utf8(output.stdout).expect("text");
    // Half a microsecond is rounded up.
    assert_eq!(folded, "after 2\nouter 1\nouter;inner 10\n");
    let said = String::from_utf8(output.stderr).expect("text");
    assert!(said.starts_with("note: 1 slices partly overlap others on their track"), "{said}");
    // A timeline contains all slices, and none is truncated.
    printed(&["convert", text(&file), "--to", "speedscope"]);
    let json = std::fs::read_to_string(folder.path().join("other.speedscope.json"));
    let json: Value = serde_json::from_str(&json.expect("a file")).expect("JSON");
    let profiles = json["profiles"].as_array().expect("profiles");
    assert_eq!(profiles.len(), 2, "{json}");
    assert_eq!(profiles[1]["name"], "thread 1 (overlapping)");
    let times: Vec<_> = profiles[1]["events"].as_array().expect("events").iter().collect();
    assert_eq!((&times[0]["at"], &times[1]["at"]), (&5_000.into(), &15_000.into()));
}

/// A trace may be truncated because the process was interrupted.
#[test]
fn readable_parts_of_a_trace_are_converted() {
    let folder = Folder::new();
    let whole = unpacked(&tensor(&folder));
    let events = whole.find("\"name\":\"gemm").unwrap_or(whole.len() * 3 / 4);
    let file = folder.file("cut.pt.trace.json", &whole[..events]);
    let output = mlprof(&["convert", text(&file), "--to", "folded", "-o", "-"]);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.starts_with("note: the end of "), "{said}");
    assert!(
        said.contains(
            "is missing: the file ends in the middle of an event; the events before it are"
        )
    );
    assert!(String::from_utf8_lossy(&output.stdout).contains("training_step"), "{output:?}");
}

/// Some traces in Chrome's format are only a list of events.
#[test]
fn a_list_of_events_is_a_trace() {
    let folder = Folder::new();
    let event = r#"[{"ph":"X","name":"a","pid":1,"tid":1,"ts":0,"dur":5},{"ph":"X","name":"b","pid":1,"tid":1,"ts":1,"dur":2}]"#;
    let file = folder.file("list.json", event);
    let folded = printed(&["convert", text(&file), "--to", "folded", "-o", "-"]);
    assert_eq!(folded, "a 3\na;b 2\n");
}

#[test]
fn a_trace_is_no_report_and_has_no_functions() {
    let folder = Folder::new();
    let recorded = tensor(&folder);
    let error = refused(&["convert", text(&recorded.trace), "--to", "prof"]);
    assert!(
        error.contains(
            "supported formats: chrome, folded, svg, speedscope, json, pftrace, xplane, parquet"
        ),
        "{error}"
    );
    let error = refused(&["report", text(&recorded.trace)]);
    assert!(error.contains("`mlprof convert --to`"), "{error}");
}

/// The text of nested stacks grows with the square of the depth, so stacks are truncated with a
/// note. Their time is kept.
#[test]
fn the_deepest_nesting_is_cut_and_its_time_kept() {
    let folder = Folder::new();
    for depth in [20_000_u64, 100_000] {
        let slice = |level: u64| {
            let (start, duration) = (level, 2 * depth - 2 * level);
            format!(
                "{{\"ph\":\"X\",\"name\":\"recursion_into_the_deep\",\"pid\":1,\"tid\":1,\
                 \"ts\":{start},\"dur\":{duration}}}"
            )
        };
        let slices: Vec<String> = (0..depth).map(slice).collect();
        let trace = format!("{{\"traceEvents\":[{}]}}", slices.join(","));
        let file = folder.file("deep.pt.trace.json", trace);
        let output = mlprof(&["convert", text(&file), "--to", "folded", "-o", "-"]);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        assert!(output.stdout.len() as u64 <= flame::MOST_BYTES + (1 << 20), "{depth}");
        assert!(said.contains("slices exceed the limits of stacks"), "{said}");
        let folded = String::from_utf8(output.stdout).expect("text");
        let values = folded.lines().map(|line| line.rsplit_once(' ').expect("a value"));
        let values: Vec<(&str, u64)> =
            values.map(|(stack, value)| (stack, value.parse().expect("a number"))).collect();
        assert_eq!(values.iter().map(|(_, value)| value).sum::<u64>(), 2 * depth);
        let is_cut = |(stack, _): &&(&str, u64)| stack.ends_with(flame::CUT);
        assert_eq!(values.iter().filter(is_cut).count(), 1);
        // A timeline is not truncated.
        printed(&["convert", text(&file), "--to", "speedscope"]);
        let json = std::fs::read_to_string(folder.path().join("deep.speedscope.json"));
        let json: Value = serde_json::from_str(&json.expect("a file")).expect("JSON");
        let events = json["profiles"][0]["events"].as_array().expect("events");
        assert_eq!(events.len() as u64, 2 * depth);
    }
}
