//! Scenes that check which values are sampled, and when.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use mlprof_core::hook::DeviceCounter;
use mlprof_core::report::tensor::DeviceCounterStatistics;
use mlprof_core::tensor::Schedule;
use mlprof_core::trace::kineto;
use mlprof_core::watcher::devices_now;
use mlprof_core::{
    Interest, Profiler, ProfilerExt, RunContext, Session, SimpleProfiler, Stage, TensorProfiler,
    profile,
};
use mlprof_cuda::{DeviceCounters, InvalidRate};
use serde_json::Value;

use super::{counted, has_no_notes, has_thread, numbers, record, until, work};

pub(super) fn samples() {
    let trace = Arc::new(Mutex::new(Vec::new()));
    let place = trace.clone();
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        kineto::write(cycle, "trace", &mut *place.lock().expect("no panic")).expect("memory");
    });
    let profiler = Arc::new(profiler);
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    for _ in 0..3 {
        let _step = profile!("training_step");
        drop(profile!("too_short"));
        work(100);
    }
    drop(session);
    let (report, text) = (profiler.snapshot(), profiler.summary());
    println!("{text}");
    assert!(has_no_notes(&report), "{text}");
    // The library lists its devices in reverse PCI bus order, so PCI index 2 is its device 0.
    assert_eq!(numbers(&report), [0, 1]);
    for (device, index) in report.device_counters.iter().zip([0.0, 1.0]) {
        let expected = [
            (DeviceCounter::GpuUtilization, 50.0 + index),
            (DeviceCounter::MemoryUtilization, 20.0 + index),
            (DeviceCounter::MemoryUsed, (index + 1.0) * f64::from(1 << 30)),
            (DeviceCounter::Temperature, 60.0 + index),
            (DeviceCounter::SmClock, 1100.0 + index),
            (DeviceCounter::MemoryClock, 1200.0 + index),
        ];
        for (counter, value) in expected {
            assert_eq!(mean_and_max(device, counter), Some((value, value)), "{counter:?}");
        }
        assert_eq!(device.recording.len(), DeviceCounter::ALL.len());
        // The interval is 5 ms or longer, depending on the machine's load.
        assert!((5..=70).contains(&device.samples), "{text}");
        let interval = device.interval_seconds.expect("several samples");
        assert!((0.004..0.1).contains(&interval), "{interval}");
        let steps = device.actions.iter().find(|action| action.name == "training_step");
        assert_eq!(steps.map(|steps| (steps.calls, steps.counters.len())), Some((3, 7)));
    }
    let trace = trace.lock().expect("no panic");
    let trace: Value = serde_json::from_slice(&trace).expect("a trace");
    let mut curves: BTreeMap<(u64, &str), Vec<f64>> = BTreeMap::new();
    let events = trace["traceEvents"].as_array().expect("a list").iter();
    for event in events.filter(|event| event["ph"] == "C") {
        let (process, name) = (event["pid"].as_u64(), event["name"].as_str());
        let value = event["args"]["value"].as_f64().expect("a number");
        assert!(event["tid"].is_u64() && event["ts"].is_f64() && event["cat"].is_string());
        curves.entry((process.expect("a device"), name.expect("a name"))).or_default().push(value);
    }
    assert_eq!(curves.len(), 2 * DeviceCounter::ALL.len());
    let samples = report.device_counters[0].samples as usize;
    assert_eq!(curves[&(0, "GPU 0 utilization (%)")], vec![50.0; samples]);
    assert_eq!(curves[&(1, "GPU 1 temperature (°C)")][0], 61.0);
    let power = &curves[&(0, "GPU 0 power (W)")];
    assert!(power.iter().all(|power| [100.0, 300.0].contains(power)), "{power:?}");
}

pub(super) fn by_the_program() {
    assert_eq!(DeviceCounters::new().rate(0.0).start(), Err(InvalidRate(0.0)));
    assert!(DeviceCounters::new().rate(f64::NAN).start().is_err());
    DeviceCounters::new().rate(100.0).devices([1]).start().expect("a rate");
    assert!(!has_thread(), "nobody wants to know yet");
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    until("it samples", || counted("fake_utilization_calls") > 1);
    drop(session);
    assert_eq!(numbers(&profiler.snapshot()), [1]);
    // The thread must not keep a profiler alive.
    let gone = Arc::downgrade(&profiler);
    drop(profiler);
    until("the profiler is let go", || gone.upgrade().is_none());
    let asked = counted("fake_utilization_calls");
    work(50);
    assert_eq!(counted("fake_utilization_calls"), asked, "and asks nobody meanwhile");

    DeviceCounters::new().devices([7]).start().expect("a rate");
    let (report, _) = record(|profiler| {
        let note = "none of the devices [7] exists; available devices: 0, 1, 2";
        until(note, || profiler.summary().contains(note));
        work(50);
    });
    assert_eq!(numbers(&report), [0; 0]);
    // Sampling starts and stops in the middle of a recording.
    DeviceCounters::stop();
    let (report, _) = record(|_| {
        let asked = counted("fake_utilization_calls");
        DeviceCounters::new().rate(1000.0).start().expect("a rate");
        until("it samples", || counted("fake_utilization_calls") > asked + 6);
        DeviceCounters::stop();
        work(50);
        let asked = counted("fake_utilization_calls");
        work(50);
        assert_eq!(counted("fake_utilization_calls"), asked);
    });
    assert_eq!(numbers(&report), [0, 1, 2]);
}

pub(super) fn steps_of_a_schedule() {
    // At this slow rate, the only sample of a cycle is its first one.
    DeviceCounters::new().rate(0.01).start().expect("a rate");
    let schedule = Schedule::new().wait(1).warmup(1).active(1).repeat(0);
    let profiler = TensorProfiler::new().export_trace(false).schedule(schedule);
    let profiler = Arc::new(profiler);
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    let asked = || counted("fake_utilization_calls");
    let mut before = asked();
    for step in 0..9 {
        // A busy machine may wake the thread late, so each active step lasts until it has a sample.
        if step % 3 == 2 {
            until("a sample of an active step", || asked() > before);
        }
        work(100);
        before = asked();
        profiler.step();
    }
    drop(session);
    let report = profiler.snapshot();
    assert_eq!(numbers(&report), [0, 1, 2]);
    assert_eq!((report.cycle_count, report.device_counters[0].samples), (3, 3));
    assert_eq!(report.device_counters[0].interval_seconds, None);
    // This profiler has no interest in devices.
    let before = asked();
    let simple =
        Session::begin(Arc::new(SimpleProfiler::new()), Stage::Validate, &RunContext::default())
            .expect("a profiler");
    work(30);
    drop(simple);
    assert_eq!(asked(), before);
}

pub(super) fn not_asked_for() {
    let (report, text) = record(|_| {
        drop(profile!("work"));
        work(30);
        assert!(!has_thread());
    });
    assert!(report.device_counters.is_empty() && !text.contains("Device 0"), "{text}");
}

fn mean_and_max(device: &DeviceCounterStatistics, counter: DeviceCounter) -> Option<(f64, f64)> {
    let found = device.recording.iter().find(|found| found.counter == counter)?;
    Some((found.mean, found.max))
}

/// Checks that a request for current values enables neither sampling nor a hook.
pub(super) fn asked_now_and_then() {
    let profiler = Arc::new(SimpleProfiler::new());
    let session = Session::begin(profiler, Stage::Fit, &RunContext::default()).expect("a profiler");
    assert!(!has_thread(), "nobody has asked");
    let samples = RefCell::new(Vec::new());
    // The first response may come too late, because NVML is loaded for it.
    let are_known = || {
        *samples.borrow_mut() = devices_now();
        !samples.borrow().is_empty()
    };
    until("devices are known", are_known);
    let samples = samples.borrow().clone();
    let value = |device, counter| {
        let mut all = samples.iter().filter(|it| (it.device, it.counter) == (device, counter));
        let sample = all.next().expect("a value");
        assert!(all.next().is_none(), "once: {samples:?}");
        sample.value
    };
    // Devices are numbered by PCI bus order.
    for (device, index) in [(0, 2.0), (1, 1.0), (2, 0.0)] {
        assert_eq!(value(device, DeviceCounter::GpuUtilization), 50.0 + index);
        assert_eq!(value(device, DeviceCounter::MemoryUsed), (index + 1.0) * f64::from(1 << 30));
    }
    assert!(!mlprof_core::hook::interest().contains(Interest::DEVICE));
    let asked = counted("fake_utilization_calls");
    work(50);
    assert_eq!(counted("fake_utilization_calls"), asked, "and nobody is asked meanwhile");
    DeviceCounters::stop();
    assert!(devices_now().is_empty(), "not where the program says so");
    DeviceCounters::new().devices([1]).start().expect("a rate");
    until("one is known", || {
        let samples = devices_now();
        assert!(samples.iter().all(|sample| sample.device == 1), "{samples:?}");
        samples.len() == DeviceCounter::ALL.len()
    });
    drop(session);
}

/// Checks that the environment can turn counters off.
pub(super) fn off() {
    assert!(devices_now().is_empty() && !has_thread());
}
