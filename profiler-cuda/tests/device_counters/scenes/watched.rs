//! Counters for who looks in from outside, beside profilers that do not want them.

use profiler_core::hook::DeviceCounter;
use profiler_cuda::DeviceCounters;
use profiler_events::counters_now::{shown, watch};

use super::{counted, has_no_notes, has_thread, record, until, work};

pub(super) fn by_somebody() {
    assert!(!has_thread() && shown().is_empty(), "nobody looks yet");
    let watching = watch();
    // CUDA's third one is the library's first.
    let value = |which: DeviceCounter| {
        let shown = shown();
        let found = shown.iter().find(|(device, counter, _)| (*device, *counter) == (2, which));
        found.map(|(.., value)| *value)
    };
    until("all are asked", || value(DeviceCounter::MemoryClock).is_some());
    assert_eq!(value(DeviceCounter::GpuUtilization), Some(50.0));
    assert_eq!(value(DeviceCounter::MemoryUsed), Some(f64::from(1 << 30)));
    // A profiler that has not asked for them hears nothing of it.
    let (report, text) = record(|_| work(20));
    assert!(report.device_counters.is_empty() && has_no_notes(&report), "{text}");
    let before = counted("fake_utilization_calls");
    until("it goes on", || counted("fake_utilization_calls") > before);
    drop(watching);
    assert_eq!(shown(), []);
    until("nobody is asked any more", || {
        let calls = counted("fake_utilization_calls");
        // Longer than from one sample to the next.
        work(1200);
        counted("fake_utilization_calls") == calls
    });
}

pub(super) fn without_a_driver() {
    let watching = watch();
    until("it has looked for one", has_thread);
    let (report, text) = record(|_| work(50));
    assert!(has_no_notes(&report), "whoever looks in changes no report: {text}");
    assert_eq!(shown(), []);
    drop(watching);
}

pub(super) fn forbidden() {
    DeviceCounters::stop();
    let watching = watch();
    work(50);
    assert!(!has_thread() && shown().is_empty(), "the program wants none");
    drop(watching);
}
