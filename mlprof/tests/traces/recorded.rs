//! Compares traces recorded on real devices with sums of their events.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::Value;

use super::{mlprof, text};

const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/traces/recorded/");
const WORK: [&str; 3] = ["kernel", "gpu_memcpy", "gpu_memset"];

fn path(name: &str) -> String {
    format!("{FOLDER}{name}.pt.trace.json.gz")
}

/// Returns the complete events of a trace.
fn events(name: &str) -> Vec<Value> {
    let file = std::fs::File::open(path(name)).expect("a trace");
    let mut json = String::new();
    flate2::read::GzDecoder::new(file).read_to_string(&mut json).expect("text");
    let trace: Value = serde_json::from_str(&json).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("events").iter();
    events.filter(|event| event["ph"] == "X").cloned().collect()
}

fn nanoseconds(microseconds: &Value) -> i64 {
    (microseconds.as_f64().expect("a time") * 1e3).round() as i64
}

fn is_work(event: &&Value) -> bool {
    WORK.iter().any(|category| event["cat"] == **category)
}

#[test]
fn all_work_of_a_device_has_its_launch() {
    for (name, count) in [("candle-h100", 159), ("tch-h200", 78), ("burn-h200", 150)] {
        let events = events(name);
        let calls: BTreeMap<u64, i64> = events
            .iter()
            .filter(|event| event["cat"] == "cuda_runtime" || event["cat"] == "cuda_driver")
            .filter_map(|call| {
                Some((call["args"]["correlation"].as_u64()?, nanoseconds(&call["ts"])))
            })
            .collect();
        let work: Vec<&Value> = events.iter().filter(is_work).collect();
        assert_eq!(work.len(), count, "{name}");
        for event in work {
            let call = event["args"]["correlation"].as_u64().and_then(|call| calls.get(&call));
            let call = call.unwrap_or_else(|| panic!("{name}: nobody launched {event}"));
            assert!(*call <= nanoseconds(&event["ts"]), "{name}: before its launch: {event}");
        }
    }
}

#[test]
fn kernels_have_the_calls_and_times_of_their_events() {
    for name in ["candle-h100", "tch-h200", "burn-h200"] {
        let mut expected: BTreeMap<String, (u64, i64)> = BTreeMap::new();
        for event in events(name).iter().filter(is_work) {
            let kernel = event["name"].as_str().expect("a name").to_owned();
            let of = expected.entry(kernel).or_default();
            *of = (of.0 + 1, of.1 + nanoseconds(&event["dur"]));
        }
        let output = mlprof(&["analyze", "--json", &path(name)]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        let device = &json["traces"][0]["devices"][0];
        let kernels = device["kernels"].as_array().expect("kernels").iter();
        let found: BTreeMap<String, (u64, i64)> = kernels
            .map(|row| {
                let number = |field: &str| row[field].as_i64().expect("a number");
                let name = row["name"].as_str().expect("a name").to_owned();
                (name, (number("calls") as u64, number("total_ns")))
            })
            .collect();
        assert_eq!(found, expected, "{name}");
        let launched: u64 = expected.values().map(|(calls, _)| calls).sum();
        assert_eq!(device["launches"]["launched"], launched, "{name}");
    }
}
