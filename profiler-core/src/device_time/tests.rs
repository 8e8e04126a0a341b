use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, mpsc};
use std::time::Duration;

use mlprof_events::own_thread;

use super::{DeviceClock, DeviceWindow, register_device_clock};
use crate::hook::{DeviceEvent, RegionSink, Timestamp};
use crate::report::comparison::{Subject, compare};
use crate::report::{Report, SimpleReport, page};
use crate::{
    Action, ActionKind, AdvancedProfiler, Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage,
    hook,
};

/// Fake device on which every window takes 1 µs. It only times actions whose names start with
/// "fake".
struct FakeDevice {
    closed: Mutex<Vec<&'static str>>,
    opened: AtomicUsize,
}

struct FakeWindow {
    action: Action,
    opened: Timestamp,
    sink: Arc<dyn RegionSink>,
}

impl DeviceWindow for FakeWindow {}

impl Drop for FakeWindow {
    fn drop(&mut self) {
        if self.action.name().contains("fails") {
            return self.sink.lost("the fake device is unwell");
        }
        fake().closed.lock().unwrap_or_else(PoisonError::into_inner).push(self.action.name());
        let event = DeviceEvent::new(self.action, self.opened, Timestamp::now());
        self.sink.region(&event, 1000);
    }
}

impl DeviceClock for FakeDevice {
    fn open(&self, action: Action, sink: &Arc<dyn RegionSink>) -> Option<Box<dyn DeviceWindow>> {
        action.name().starts_with("fake").then(|| {
            self.opened.fetch_add(1, Ordering::Relaxed);
            let window = FakeWindow { action, opened: Timestamp::now(), sink: sink.clone() };
            Box::new(window) as Box<dyn DeviceWindow>
        })
    }
}

fn fake() -> &'static FakeDevice {
    static FAKE: FakeDevice =
        FakeDevice { closed: Mutex::new(Vec::new()), opened: AtomicUsize::new(0) };
    static REGISTERED: OnceLock<bool> = OnceLock::new();
    assert!(REGISTERED.get_or_init(|| register_device_clock(&FAKE)));
    &FAKE
}

fn simple() -> SimpleProfiler {
    fake();
    SimpleProfiler::new().measure_devices(true)
}

fn calls(profiler: &SimpleProfiler, action: &str) -> Option<u64> {
    let report = profiler.snapshot();
    let row = report.actions.iter().find(|row| row.action == action).expect("a row");
    row.device.map(|device| device.calls)
}

#[test]
fn rows_have_the_device_time_of_their_calls() {
    let profiler = simple();
    for _ in 0..3 {
        let _outer = profiler.profile("fake outer");
        let _inner = profiler.profile("fake inner");
    }
    drop(profiler.profile("host only"));
    let report = profiler.snapshot();
    let row = |action: &str| report.actions.iter().find(|row| row.action == action).expect("it");
    for action in ["fake outer", "fake inner"] {
        let device = row(action).device.expect("device time");
        assert_eq!((device.calls, device.total_seconds), (3, 3e-6), "{action}");
        assert_eq!((device.min_seconds, device.max_seconds), (1e-6, 1e-6));
    }
    assert_eq!(row("host only").device, None);
    assert!(report.threads.iter().all(|it| it.actions.iter().all(|row| row.device.is_none())));
    let notes = report.header.notes.join("\n");
    assert!(notes.contains("for 6 calls of actions"), "{notes}");
    let json = Report::Simple(report.clone()).to_json().expect("JSON");
    assert!(json.contains("\"device\": {\n        \"calls\": 3"), "{json}");
    let read: SimpleReport = serde_json::from_str(&json).expect("what was written");
    assert_eq!(read.actions, report.actions);
}

#[test]
fn a_call_inside_a_call_of_the_same_action_is_not_counted_once_more() {
    let profiler = simple();
    {
        let _outer = profiler.profile("fake");
        let _inner = profiler.profile("fake");
        drop(profiler.profile("fake"));
    }
    drop(profiler.profile("fake"));
    assert_eq!(calls(&profiler, "fake"), Some(2));
}

#[test]
fn without_the_option_no_window_is_opened_and_no_column_shown() {
    let fake = fake();
    let profiler = SimpleProfiler::new();
    drop(profiler.profile("fake but unwanted"));
    let opened = fake.closed.lock().unwrap_or_else(PoisonError::into_inner).clone();
    assert!(!opened.contains(&"fake but unwanted"));
    let json = profiler.report().expect("a report").to_json().expect("JSON");
    assert!(!json.contains("\"device\"") && !json.contains("device time"), "{json}");
    assert!(!profiler.summary().contains("Device"));
    let back = SimpleProfiler::new().measure_devices(true).measure_devices(false);
    drop(back.profile("fake but unwanted"));
    assert_eq!(calls(&back, "fake but unwanted"), None);
}

#[test]
fn functions_are_not_measured() {
    fake();
    let profiler = AdvancedProfiler::new().measure_devices(true);
    let function = Action::of_kind(ActionKind::Function, "fake function", None);
    let action = Action::new("fake action");
    profiler.start(action);
    profiler.start(function);
    profiler.stop(function).expect("started");
    profiler.stop(action).expect("started");
    let report = profiler.snapshot();
    let device = |name: &str| report.actions.iter().find(|it| it.action == name)?.device;
    assert_eq!(device("fake action").expect("device time").calls, 1);
    assert_eq!(device("fake function"), None);
    assert!(profiler.summary().contains("Device time of actions"), "{}", profiler.summary());
}

#[test]
fn calls_without_a_time_are_counted_with_the_reason() {
    let profiler = simple();
    drop(profiler.profile("fake that fails"));
    drop(profiler.profile("fake that fails"));
    assert_eq!(calls(&profiler, "fake that fails"), None, "no zeros");
    let notes = profiler.snapshot().header.notes.join("\n");
    let note = "2 calls of actions have no device time: the fake device is unwell";
    assert!(notes.contains(note), "{notes}");
    assert!(!profiler.summary().contains("Device time (s)"), "no column of nothing but dashes");
}

#[test]
fn a_program_without_devices_is_told_so() {
    let profiler = simple();
    drop(profiler.profile("host only"));
    let notes = profiler.snapshot().header.notes.join("\n");
    assert!(notes.contains("no device time was measured"), "{notes}");
}

#[test]
fn scopes_that_are_forgotten_or_stopped_twice_do_no_harm() {
    let profiler = simple();
    let (forgotten, action) = (Action::new("fake forgotten"), Action::new("fake action"));
    profiler.start(forgotten);
    for _ in 0..3 {
        profiler.start(action);
        profiler.stop(action).expect("started");
        assert!(profiler.stop(action).is_err());
    }
    assert_eq!(calls(&profiler, "fake action"), Some(3));
    for _ in 0..3000 {
        profiler.start(Action::new("fake many"));
    }
    assert!(profiler.stop(Action::new("fake many")).is_ok());
}

#[test]
fn stages_inside_others_have_rows_of_their_own() {
    let profiler = simple();
    let run = RunContext::default();
    profiler.setup(Stage::Fit, &run);
    profiler.setup(Stage::SanityCheck, &run);
    drop(profiler.profile("fake step"));
    profiler.teardown(Some(Stage::SanityCheck));
    drop(profiler.profile("fake step"));
    drop(profiler.profile("fake step"));
    let report = profiler.snapshot();
    let rows = report.actions.iter().filter(|row| row.action == "fake step");
    let mut seen: Vec<_> =
        rows.map(|row| (row.sub_stage, row.device.map_or(0, |device| device.calls))).collect();
    seen.sort_by_key(|(_, calls)| *calls);
    assert_eq!(seen, [(Some(Stage::SanityCheck), 1), (None, 2)]);
}

#[test]
fn each_profiler_has_windows_of_its_own() {
    let (one, other) = (simple(), simple().measure_cpu().measure_devices(true));
    {
        let _one = one.profile("fake shared");
        let _other = other.profile("fake shared");
        let _again = other.profile("fake inside");
    }
    assert_eq!(calls(&one, "fake shared"), Some(1));
    let report = other.snapshot();
    let measured = report.actions.iter().filter(|row| row.device.is_some()).count();
    assert_eq!(measured, 2);
    assert!(other.summary().contains("Device time of actions"), "{}", other.summary());
}

#[test]
fn every_form_of_a_report_shows_device_time() {
    let profiler = simple();
    drop(profiler.profile("fake action"));
    drop(profiler.profile("host only"));
    let text = profiler.summary();
    let cells = |name: &str| -> Vec<String> {
        let line = text.lines().find(|line| line.starts_with(&format!("|  {name}")));
        let line = line.unwrap_or_else(|| panic!("no row {name} in {text}"));
        line.split('|').map(|cell| cell.trim().to_owned()).collect()
    };
    assert_eq!(cells("Action")[6..8], ["Device mean (s)", "Device time (s)"]);
    assert_eq!(cells("fake action")[6..8], ["1e-06", "1e-06"]);
    assert_eq!(cells("host only")[6..8], ["-", "-"]);
    assert!(text.contains("\nDevice: time of the device's clock"), "{text}");
    let report = profiler.report().expect("a report");
    let reports = std::slice::from_ref(&report);
    let page = page::html(reports);
    assert!(page.contains("Device mean"), "the page has the column");
    let compared = compare(reports, reports).expect("reports of one kind");
    let mut tables = compared.parts.iter().flat_map(|part| &part.tables);
    assert!(tables.any(|table| table.subject == Subject::ActionsOnDevice), "{compared:?}");

    let other = SimpleProfiler::new();
    drop(other.profile("host only"));
    let page = page::html(&other.report().into_iter().collect::<Vec<_>>());
    assert!(!page.contains("Device mean"), "no column where nothing was measured");
}

/// A report for an external watcher, requested from a training that may hang.
#[test]
fn a_report_for_somebody_outside_does_not_wait_for_a_device_that_hangs() {
    static HANGS: AtomicBool = AtomicBool::new(false);
    fn deliver() {
        while HANGS.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    hook::add_region_delivery(deliver);
    let profiler = Arc::new(SimpleProfiler::new());
    drop(profiler.profile("an action"));
    HANGS.store(true, Ordering::Relaxed);
    let (sender, reports) = mpsc::channel();
    let asked = profiler.clone();
    let answer = move || sender.send(asked.snapshot()).expect("somebody waits for it");
    own_thread::spawn("mlprof-test", answer).expect("a thread");
    let report = reports.recv_timeout(Duration::from_secs(60)).expect("an answer");
    HANGS.store(false, Ordering::Relaxed);
    assert_eq!(report.actions[0].action, "an action");
    assert_eq!(report.header.notes, [hook::STILL_AT_WORK]);
    assert!(profiler.snapshot().header.notes.is_empty(), "the program waits for its devices");
}
