//! Tests that reports of every JSON schema version can be read. The folder `schema/` contains one
//! file per version, with a report of every kind.
//!
//! `UPDATE_GOLDEN=1` creates the file of a new version. Existing files never change. New fields do
//! not raise the version, so old files must remain readable without them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use mlprof_core::hook::DeviceCounter;
use mlprof_core::report::memory::{ActionMemory, ProcessMemory, ThreadMemory};
use mlprof_core::report::regions::DeviceRegion;
use mlprof_core::report::samples::{ActionSamples, SampleCounts, SampledFunction, ThreadSamples};
use mlprof_core::report::simple::DataWaitingParts;
use mlprof_core::report::tensor::{
    ActionDeviceCounters, CounterStatistics, DeviceCounterStatistics, TuningSummary,
};
use mlprof_core::report::{
    OpenActionParts, SCHEMA_VERSION, SamplesReportParts, StartupDurationsParts,
};
use mlprof_core::{ActionKind, Report, Stage};
use serde_json::Value;

use crate::kinds;
use crate::runs::{Folder, advanced, counted, printed, tensor, text};

fn file_of(version: u32) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/report_and_convert/schema");
    folder.join(format!("{version}.json"))
}

#[test]
fn reports_of_every_version_are_read() {
    for version in 1..=SCHEMA_VERSION {
        let file = file_of(version);
        assert_eq!(kept(version).len(), 7, "{}: all kinds", file.display());
        let shown = printed(&["report", text(&file)]);
        for part in
            ["run_training_batch", "training_step", "matmul", "model::slow", "model::forward"]
        {
            assert!(shown.contains(part), "version {version}: {part} is not in {shown}");
        }
        for report in kept(version) {
            assert_eq!(report["header"]["schema_version"], version);
        }
    }
}

/// A removed field or a changed type breaks programs that read reports, so it requires a new
/// version.
#[test]
#[cfg(target_os = "linux")]
fn no_field_goes_or_changes_its_type_without_a_new_version() {
    let fresh = every_kind();
    let file = file_of(SCHEMA_VERSION);
    if !file.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        let json = serde_json::to_string_pretty(&fresh).expect("JSON");
        std::fs::write(&file, json + "\n").expect("a file");
    }
    let changes = changes(&by_kind(kept(SCHEMA_VERSION)), &by_kind(fresh));
    assert!(
        changes.is_empty(),
        "{changes:#?}; if that is meant, raise SCHEMA_VERSION, let older reports be read, and run \
         again with UPDATE_GOLDEN=1"
    );
}

#[test]
fn fields_that_go_and_types_that_change_are_seen() {
    let old = serde_json::json!([{"a": {"b": 1, "c": null}, "d": [{"e": "x"}, {"f": true}]}]);
    assert_eq!(changes(&old, &old), Vec::<String>::new());
    let mut new = old.clone();
    new[0]["a"]["b"] = "1".into();
    new[0]["a"]["c"] = 7.into();
    new[0]["d"][0]["e"] = Value::Null;
    new[0]["d"][1] = serde_json::json!({"g": true});
    let expected = ["[].a.b: number became string", "[].d[].f: is gone"];
    assert_eq!(changes(&old, &new), expected);
}

fn kept(version: u32) -> Vec<Value> {
    let file = file_of(version);
    let json = std::fs::read_to_string(&file).expect("a file of each version");
    serde_json::from_str(&json).expect("a list of reports")
}

/// Groups the reports by kind, because fields such as `actions` have another meaning in each kind.
#[cfg(target_os = "linux")]
fn by_kind(reports: Vec<Value>) -> Value {
    let kind = |report: &Value| report["profiler"].as_str().expect("its kind").to_owned();
    reports.into_iter().map(|report| (kind(&report), report)).collect()
}

/// Returns the fields of `old` that are missing in `new` or have another type there.
fn changes(old: &Value, new: &Value) -> Vec<String> {
    let (mut before, mut after) = (BTreeMap::new(), BTreeMap::new());
    fields(old, "", &mut before);
    fields(new, "", &mut after);
    let change = |(path, types): (&String, &BTreeSet<&'static str>)| {
        let Some(now) = after.get(path) else { return Some(format!("{path}: is gone")) };
        let list = |types: &BTreeSet<&str>| types.iter().copied().collect::<Vec<_>>().join(", ");
        // A field that is sometimes null or absent has no fixed type to compare.
        let is_open = types.is_empty() || now.is_empty();
        let is_same = is_open || !types.is_disjoint(now);
        (!is_same).then(|| format!("{path}: {} became {}", list(types), list(now)))
    };
    before.iter().filter_map(change).collect()
}

/// Collects the types of all fields by their paths. A null value adds no type.
fn fields(value: &Value, path: &str, found: &mut BTreeMap<String, BTreeSet<&'static str>>) {
    let kind = match value {
        Value::Null => None,
        Value::Bool(_) => Some("boolean"),
        Value::Number(_) => Some("number"),
        Value::String(_) => Some("string"),
        Value::Array(_) => Some("array"),
        Value::Object(_) => Some("object"),
    };
    found.entry(path.to_owned()).or_default().extend(kind);
    match value {
        Value::Array(list) => {
            list.iter().for_each(|value| fields(value, &format!("{path}[]"), found));
        }
        Value::Object(map) => {
            map.iter().for_each(|(name, value)| fields(value, &format!("{path}.{name}"), found));
        }
        _ => {}
    }
}

/// Returns a report of each kind with a value in every field.
fn every_kind() -> Vec<Value> {
    let folder = Folder::new();
    let reports = [
        counted(),
        advanced(),
        tensor(&folder).report,
        Report::Samples(SamplesReportParts { header: kinds::header(), samples: samples() }.build()),
        Report::Memory(kinds::memory_report()),
        Report::Lines(kinds::lines()),
        Report::Numerics(kinds::numerics()),
    ];
    let value = |mut report: Report| {
        fill(&mut report);
        serde_json::to_value(&report).expect("JSON")
    };
    reports.into_iter().map(value).collect()
}

fn samples() -> mlprof_core::report::samples::Samples {
    let counts = SampleCounts { samples: 3, working_ticks: 2, waiting_ticks: 1, stalled_ticks: 0 };
    let function = SampledFunction { function: 0, own: counts, total: counts };
    let mut samples = kinds::samples();
    samples.actions.push(ActionSamples {
        action: "training_step".to_owned(),
        sub_stage: Some(Stage::Validate),
        all: counts,
        squared_ticks: 9,
        functions: vec![function],
    });
    samples.threads.push(ThreadSamples {
        thread: "main".to_owned(),
        threads: 1,
        working_ticks: 2,
        waiting_ticks: 1,
        stalled_ticks: 0,
    });
    samples.notes.push("a note".to_owned());
    samples
}

/// Fills the fields that these runs leave empty and other runs do not.
fn fill(report: &mut Report) {
    let header = report.header_mut();
    header.stage = Some(Stage::Fit);
    header.startup =
        Some(StartupDurationsParts { total_seconds: 0.1, before_main_seconds: Some(0.01) }.build());
    header.notes.push("a note".to_owned());
    let region = DeviceRegion {
        action: "forward".to_owned(),
        sub_stage: Some(Stage::Validate),
        calls: 2,
        total_seconds: 0.5,
        min_seconds: 0.2,
        max_seconds: 0.3,
    };
    let open = OpenActionParts {
        action: "run_training_epoch".to_owned(),
        thread: "main".to_owned(),
        elapsed_seconds: 1.0,
    }
    .build();
    match report {
        Report::Simple(report) => {
            report.data_waiting = Some(
                DataWaitingParts { waiting_seconds: 0.1, epoch_seconds: Some(1.0), share: 0.1 }
                    .build(),
            );
            report.device_regions.push(region);
            report.open.push(open);
        }
        Report::Advanced(report) => {
            report.samples = Some(samples());
            report.device_regions.push(region);
            report.open.push(open);
        }
        Report::Tensor(report) => {
            report.device_regions.push(region);
            report.device_counters.push(device_counters());
            report.tuning.push(TuningSummary {
                name: "gemm".to_owned(),
                count: 3,
                device_seconds: 0.1,
            });
            report.files.push("run.pt.trace.json.gz".to_owned());
        }
        Report::Memory(report) => {
            let action = ActionMemory {
                action: "forward".to_owned(),
                kind: ActionKind::Action,
                sub_stage: Some(Stage::Validate),
                calls: 2,
                total: Default::default(),
                own: Default::default(),
                peak_bytes: 7,
            };
            report.process = ProcessMemory::default();
            report.threads.push(ThreadMemory {
                thread: "main".to_owned(),
                threads: 1,
                actions: vec![action.clone()],
            });
            report.actions.push(action);
            report.peak.process_bytes = Some(9);
            report.open.push(open);
        }
        Report::Lines(report) => {
            let function = &mut report.functions[0];
            function.entry_memory = function.lines[0].memory;
        }
        _ => {}
    }
}

fn device_counters() -> DeviceCounterStatistics {
    let counter = CounterStatistics {
        counter: DeviceCounter::GpuUtilization,
        samples: 4,
        mean: 50.0,
        max: 100.0,
    };
    DeviceCounterStatistics {
        device: 0,
        samples: 4,
        interval_seconds: Some(0.1),
        recorded_seconds: 1.0,
        memory_bytes: None,
        recording: vec![counter],
        actions: vec![ActionDeviceCounters {
            name: "training_step".to_owned(),
            kind: ActionKind::Action,
            calls: 2,
            total_seconds: 0.5,
            counters: vec![counter],
        }],
    }
}
