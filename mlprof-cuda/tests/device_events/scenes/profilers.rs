//! Scenes that check regions in the profilers' reports.

use std::sync::Arc;

use mlprof_core::nvtx::EmitNvtxExt;
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    AdvancedProfiler, Interest, IntoProfiler, NeverStarted, PassThroughProfiler, Profiler,
    ProfilerExt, Report, RunContext, Session, SimpleProfiler, Stage, TensorProfiler, activate,
};
use mlprof_cuda::{DeviceProfilerExt, measure_actions_on, profile_device};

use super::region;
use crate::fake::Fake;

/// Checks that a region belongs to the stage in which it was opened, even if it is read later.
pub fn stages() {
    let fake = Fake::with_context();
    let stream = fake.stream();
    let profiler = Arc::new(SimpleProfiler::new());
    let run = RunContext::default();
    let once = |action: &'static str, nanoseconds| {
        let _region = profiler.profile_device(action, stream.stream());
        fake.launch(stream, nanoseconds);
    };
    profiler.setup(Stage::Fit, &run);
    profiler.setup(Stage::SanityCheck, &run);
    once("validation_step", 10);
    profiler.teardown(Some(Stage::SanityCheck));
    once("training_step", 1_000);
    profiler.setup(Stage::Validate, &run);
    once("validation_step", 200);
    let validated = profiler.snapshot();
    profiler.teardown(Some(Stage::Validate));
    once("training_step", 3_000);
    profiler.teardown(Some(Stage::Fit));
    let fitted = profiler.snapshot();
    assert_eq!(region(&validated, "validation_step"), Some((1, 200, 200, 200)));
    assert_eq!(validated.device_regions.len(), 1);
    assert_eq!(region(&fitted, "training_step"), Some((2, 4_000, 1_000, 3_000)));
    let labels: Vec<_> = fitted.device_regions.iter().map(|row| row.label()).collect();
    assert_eq!(labels, ["training_step", "[SanityCheck]validation_step"]);
    profiler.setup(Stage::Test, &run);
    once("test_step", 5);
    assert_eq!(profiler.snapshot().device_regions.len(), 1);
}

/// Checks that regions have rows of their own and do not count in host sums.
pub fn tables() {
    let fake = Fake::with_context();
    let stream = fake.stream();
    let folder = tempfile::tempdir().expect("a folder");
    let record = |profiler: &dyn Profiler| {
        for nanoseconds in [1_000_000, 2_000_000] {
            let _scope = profiler.profile_device("training_step", stream.stream());
            fake.launch(stream, nanoseconds);
        }
    };
    let simple = SimpleProfiler::new();
    record(&simple);
    let text = simple.summary();
    let cells = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(&format!("|  {name} ")));
        let line = line.unwrap_or_else(|| panic!("no row {name} in {text}"));
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    let row = cells("training_step [device]");
    assert_eq!(row[1..6], ["training_step [device]", "0.0015", "2", "0.003", "-"], "{text}");
    // The total counts the two calls and the two rows of start-up.
    assert_eq!(cells("Total")[3], "4", "{text}");
    let json = simple.report().expect("a report").to_json().expect("JSON");
    let Ok(Report::Simple(back)) = Report::from_json(&json) else { panic!("{json}") };
    assert_eq!(back.device_regions, simple.snapshot().device_regions);
    assert!(json.contains("\"device_regions\": ["), "{json}");

    let short = SimpleProfiler::new().short();
    let detailed = SimpleProfiler::new().detailed();
    let counted = SimpleProfiler::new().measure_cpu();
    let advanced = AdvancedProfiler::new();
    let profilers: [&dyn Profiler; 4] = [&short, &detailed, &counted, &advanced];
    for profiler in profilers {
        record(profiler);
    }
    let line = "|  training_step [device]\t|  0.0015         \t|  0.003          \t|";
    assert!(short.summary().contains(line), "{}", short.summary());
    for profiler in &profilers[1..] {
        let text = profiler.summary();
        assert!(text.contains("\nDevice regions, longest first\n"), "{text}");
        let row = text.lines().find(|line| line.contains("1.500 ms") && line.contains("3.000 ms"));
        assert!(row.is_some_and(|row| row.ends_with("  training_step")), "{text}");
    }
    // A session's report includes regions that were pending when the session ended.
    let written = Arc::new(SimpleProfiler::new().dirpath(folder.path()).filename("report"));
    let session =
        Session::begin(written.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    let scope = profile_device("forward", stream.stream());
    fake.launch(stream, 10_000_000);
    drop(scope);
    drop(session);
    let text = std::fs::read_to_string(folder.path().join("fit-report.txt")).expect("a report");
    assert!(text.contains("|  forward [device]\t|  0.01 "), "{text}");
}

/// Checks that rows of actions contain the time on the measured streams, for threads with a
/// context.
pub fn actions() {
    let fake = Fake::with_context();
    let (stream, other) = (fake.stream(), fake.stream());
    let off = SimpleProfiler::new();
    let profiler = Arc::new(SimpleProfiler::new().measure_devices(true));
    let device = |profiler: &SimpleProfiler, action: &str| {
        let report = profiler.snapshot();
        let row = report.actions.iter().find(|row| row.action == action).expect("a row").device;
        row.map(|device| (device.calls, (device.total_seconds * 1e9).round() as u64))
    };
    drop(profiler.profile("before"));
    assert_eq!(device(&profiler, "before"), None, "no stream is named");
    measure_actions_on(stream.stream());
    measure_actions_on(stream.stream());
    fake.take_record();
    drop(off.profile("unmeasured"));
    assert!(fake.take_record().is_empty(), "nothing is asked of the driver");
    for nanoseconds in [1_000, 3_000] {
        let _outer = profiler.profile("outer");
        fake.launch(stream, 500);
        let _inner = profiler.profile("inner");
        fake.launch(stream, nanoseconds);
    }
    assert_eq!(device(&profiler, "inner"), Some((2, 4_000)));
    assert_eq!(device(&profiler, "outer"), Some((2, 5_000)));
    let report = profiler.snapshot();
    assert!(report.device_regions.is_empty(), "the columns are no regions");
    std::thread::scope(|threads| {
        threads.spawn(|| drop(profiler.profile("without a context")));
    });
    assert_eq!(device(&profiler, "without a context"), None);
    measure_actions_on(other.stream());
    {
        let _scope = profiler.profile("two streams");
        fake.launch(stream, 70);
        fake.launch(other, 30);
    }
    assert_eq!(device(&profiler, "two streams"), Some((1, 100)), "the sum of both");
    fake.capture(stream, 1);
    drop(profiler.profile("captured"));
    fake.capture(stream, 0);
    let notes = profiler.snapshot().header.notes.join("\n");
    let note = "1 call of an action has no device time: the stream was being captured into a graph";
    assert!(notes.contains(note), "{notes}");
}

/// Checks that traces show regions on the device, and that the table contains only the work in
/// them.
pub fn recorded_steps() {
    let fake = Fake::with_context();
    let stream = fake.stream();
    let folder = tempfile::tempdir().expect("a folder");
    let schedule = Schedule::new().wait(1).warmup(1).active(2).repeat(1);
    let profiler = TensorProfiler::new().schedule(schedule);
    let traces = mlprof_core::tensor::trace_handler(folder.path(), None, false);
    let reports = tempfile::tempdir().expect("a folder");
    let profiler = profiler.on_trace_ready(traces).dirpath(reports.path()).filename("report");
    let profiler = Arc::new(profiler);
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    for step in 0..5 {
        {
            let _scope = profile_device("training_step", stream.stream());
            fake.launch(stream, 1_000 + step);
        }
        profiler.step();
    }
    let report = profiler.snapshot();
    drop(session);
    let [row] = &report.device_regions[..] else { panic!("{:?}", report.device_regions) };
    assert_eq!((row.action.as_str(), row.calls), ("training_step", 2));
    assert_eq!((row.total_seconds * 1e9).round(), 2_005.0, "{row:?}");
    let rows = &report.key_averages.rows;
    assert!(rows.iter().any(|row| row.name == "training_step" && row.calls == 2), "{rows:?}");
    assert!(rows.iter().all(|row| !row.is_on_device && row.device_seconds == 0.0), "{rows:?}");
    assert!(profiler.summary().contains("Device regions, longest first"));
    let mut slices = 0;
    for file in std::fs::read_dir(folder.path()).expect("a folder").flatten() {
        let text = std::fs::read_to_string(file.path()).expect("a trace");
        let trace: serde_json::Value = serde_json::from_str(&text).expect("JSON");
        let events = trace["traceEvents"].as_array().expect("events").clone();
        let span = |event: &serde_json::Value| {
            let start = event["ts"].as_f64().expect("a start");
            (start, start + event["dur"].as_f64().expect("a duration"))
        };
        let of_category = |category: &str| -> Vec<serde_json::Value> {
            let mut found: Vec<_> = events
                .iter()
                .filter(|event| event["cat"] == category && event["name"] == "training_step")
                .cloned()
                .collect();
            found.sort_by(|one, other| span(one).0.total_cmp(&span(other).0));
            found
        };
        let (regions, scopes) =
            (of_category("gpu_user_annotation"), of_category("user_annotation"));
        assert_eq!((regions.len(), scopes.len()), (2, 2), "{text}");
        let mut ready = 0.0;
        for (region, scope) in regions.iter().zip(&scopes) {
            slices += 1;
            assert!(region["args"]["stream"].as_u64().is_some_and(|stream| stream > 1000));
            assert_eq!(region["pid"], 0);
            // The idle device reaches the region as soon as it is enqueued, just before the action
            // begins.
            assert!(span(region).0 <= span(scope).1, "{region} {scope}");
            assert!(span(region).0 >= ready, "{region} {scope}");
            ready = span(scope).1;
        }
    }
    assert_eq!(slices, 2);
}

pub fn several() {
    let fake = Fake::with_context();
    let stream = fake.stream();
    let (simple, advanced) = (SimpleProfiler::new(), AdvancedProfiler::new());
    let sink = simple.emit_nvtx();
    let _active = activate(sink.clone());
    drop(profile_device("forward", stream.stream()));
    drop(sink.profile_device("forward", stream.stream()));
    assert!(sink.summary().contains("forward [device]"), "{}", sink.summary());
    // A region also works with a profiler that is not active and is moved in the meantime.
    drop(advanced.profile_device("backward", stream.stream()));
    let advanced = advanced.into_profiler().expect("a profiler");
    assert!(advanced.summary().contains("Device regions"), "{}", advanced.summary());
    assert!(!sink.summary().contains("backward"), "{}", sink.summary());
}

/// Checks that there are no driver calls for profilers without interest in regions.
pub fn no_listener() {
    struct Own;
    impl Profiler for Own {
        fn start(&self, _action: mlprof_core::Action) {}
        fn stop(&self, _action: mlprof_core::Action) -> Result<(), NeverStarted> {
            Ok(())
        }
    }
    let fake = Fake::with_context();
    let stream = fake.stream();
    drop(profile_device("forward", stream.stream()));
    drop(PassThroughProfiler.profile_device("forward", stream.stream()));
    drop(Own.profile_device("forward", stream.stream()));
    let schedule = Schedule::new().wait(9).warmup(0).active(1).repeat(1);
    let tensor = TensorProfiler::new().schedule(schedule);
    tensor.setup(Stage::Fit, &RunContext::default());
    // The steps that are recorded in case the stage ends early are over.
    (0..7).for_each(|_| tensor.step());
    assert_eq!(tensor.interest(), Interest::NONE);
    drop(tensor.profile_device("forward", stream.stream()));
    drop(tensor.profile("forward"));
    assert_eq!(fake.take_record(), Vec::<String>::new());
}
