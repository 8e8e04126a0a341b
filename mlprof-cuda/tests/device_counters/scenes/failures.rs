//! Scenes with missing counters, devices or libraries, which the report must mention.

use mlprof_core::Profiler;
use mlprof_core::hook::DeviceCounter;

use super::{counted, has_no_notes, numbers, record, until, work};

/// Checks that the report contains this note once and has this number of devices.
pub(super) fn says(note: &str, devices: usize) {
    for _ in 0..2 {
        let (report, text) = record(|profiler| {
            until(note, || profiler.summary().contains(note));
            work(50);
        });
        assert_eq!(report.device_counters.len(), devices, "{text}");
        let said = text.lines().filter(|line| line.starts_with("Note: ") && line.contains(note));
        assert_eq!(said.count(), 1, "{text}");
    }
}

pub(super) fn missing_counters() {
    let (report, text) = record(|_| until("it samples", || counted("fake_utilization_calls") > 5));
    println!("{text}");
    let device = &report.device_counters[0];
    assert!(device.samples > 2, "{text}");
    let found: Vec<_> = device.recording.iter().map(|found| found.counter).collect();
    let expected = [
        DeviceCounter::GpuUtilization,
        DeviceCounter::MemoryUtilization,
        DeviceCounter::MemoryUsed,
        DeviceCounter::Temperature,
    ];
    assert_eq!(found, expected);
    assert!(!text.contains("Power") && !text.contains("MHz"), "{text}");
    assert!(has_no_notes(&report), "{text}");
    assert_eq!(counted("fake_power_calls"), 1, "asked for once");
}

pub(super) fn a_device_that_is_lost() {
    let (report, text) =
        record(|profiler| until("it is lost", || profiler.summary().contains("is lost")));
    assert_eq!(report.device_counters[0].samples, 5, "{text}");
    assert_eq!(text.matches("device 0 is lost").count(), 1, "{text}");
    assert_eq!(counted("fake_utilization_calls"), 6);
}

pub(super) fn several_models_in_a_known_order() {
    let (report, text) = record(|_| until("it samples", || counted("fake_utilization_calls") > 6));
    assert_eq!(numbers(&report), [0, 1, 2]);
    assert!(has_no_notes(&report), "{text}");
}
