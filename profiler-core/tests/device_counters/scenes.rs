//! What is done in a process, and what comes out of it.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use profiler_core::cuda::{DeviceCounters, InvalidRate};
use profiler_core::hook::DeviceCounter;
use profiler_core::report::tensor::{DeviceCounterStatistics, TensorReport};
use profiler_core::tensor::Schedule;
use profiler_core::trace::kineto;
use profiler_core::{
    Profiler, ProfilerExt, RunContext, Session, SimpleProfiler, Stage, TensorProfiler, profile,
};
use serde_json::Value;

pub struct Scene {
    pub name: &'static str,
    /// Beside the library that stands for NVML.
    pub environment: &'static [(&'static str, &'static str)],
    pub play: fn(),
}

const RATE: (&str, &str) = ("MLPROF_DEVICE_COUNTERS", "200");
const LIBRARY: &str = "MLPROF_NVML_LIBRARY";

pub const ALL: &[Scene] = &[
    Scene {
        name: "samples",
        environment: &[RATE, ("CUDA_VISIBLE_DEVICES", "2,gpu-1")],
        play: samples,
    },
    Scene { name: "by the program", environment: &[], play: by_the_program },
    Scene { name: "steps of a schedule", environment: &[], play: steps_of_a_schedule },
    Scene { name: "not asked for", environment: &[], play: not_asked_for },
    Scene {
        name: "what a device lacks",
        environment: &[RATE, ("FAKE_NVML_LACKS", "power clocks"), ("FAKE_NVML_DEVICES", "1")],
        play: what_a_device_lacks,
    },
    Scene {
        name: "a device that is lost",
        environment: &[RATE, ("FAKE_NVML_LOST", "yes"), ("FAKE_NVML_DEVICES", "1")],
        play: a_device_that_is_lost,
    },
    Scene {
        name: "several models",
        environment: &[RATE, ("FAKE_NVML_MODELS", "several")],
        play: || says("CUDA_DEVICE_ORDER=PCI_BUS_ID", 3),
    },
    Scene {
        name: "several models in a known order",
        environment: &[RATE, ("FAKE_NVML_MODELS", "several"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")],
        play: several_models_in_a_known_order,
    },
    Scene {
        name: "no library",
        environment: &[RATE, (LIBRARY, "/nowhere/libnvidia-ml.so.1")],
        play: || {
            says(
                "no device counters: NVML (/nowhere/libnvidia-ml.so.1) is not there; it comes with \
                 NVIDIA's driver",
                0,
            );
        },
    },
    Scene {
        name: "another library",
        environment: &[RATE, (LIBRARY, "libm.so.6")],
        play: || says("no device counters: libm.so.6 is not NVML", 0),
    },
    Scene {
        name: "no driver",
        environment: &[RATE, ("FAKE_NVML_INIT", "9")],
        play: || says("no device counters: NVIDIA's driver is not loaded", 0),
    },
    Scene {
        name: "not permitted",
        environment: &[RATE, ("FAKE_NVML_INIT", "4")],
        play: || says("no device counters: this process is not permitted", 0),
    },
    Scene {
        name: "versions differ",
        environment: &[RATE, ("FAKE_NVML_INIT", "18")],
        play: || says("no device counters: NVML and the driver that runs are of different", 0),
    },
    Scene {
        name: "no device",
        environment: &[RATE, ("FAKE_NVML_DEVICES", "0")],
        play: || says("no device counters: NVML shows this process no device", 0),
    },
    Scene {
        name: "none visible",
        environment: &[RATE, ("CUDA_VISIBLE_DEVICES", "")],
        play: || says("no device counters: CUDA_VISIBLE_DEVICES= names no device", 0),
    },
    Scene {
        name: "only a part",
        environment: &[RATE, ("CUDA_VISIBLE_DEVICES", "MIG-1234")],
        play: || says("parts of a device have no counters (MIG-1234", 0),
    },
    Scene {
        name: "no rate",
        environment: &[("MLPROF_DEVICE_COUNTERS", "often")],
        play: || says("MLPROF_DEVICE_COUNTERS=often is no rate", 0),
    },
    Scene {
        name: "forks while it samples",
        environment: &[("MLPROF_DEVICE_COUNTERS", "1000")],
        play: forks_while_it_samples,
    },
    Scene {
        name: "ends while it samples",
        environment: &[("MLPROF_DEVICE_COUNTERS", "1000"), ("FAKE_NVML_SLOW", "20000")],
        play: ends_while_it_samples,
    },
    Scene {
        name: "a slow device",
        environment: &[RATE, ("FAKE_NVML_SLOW", "900000")],
        play: a_slow_device,
    },
];

/// Keeps the thread busy so long.
fn work(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Waits until something is so; other things keep the machine busy, too.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Whether this process has the thread that samples.
fn has_thread() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with("mlprof-device"))
}

/// What the library that stands for NVML has counted.
fn counted(what: &str) -> u32 {
    let path = std::env::var_os(LIBRARY).expect("the library");
    // SAFETY: it has been loaded already; the function of this name has this type.
    unsafe {
        let library = libloading::Library::new(path).expect("it has been loaded");
        let function = library.get::<extern "C" fn() -> u32>(what.as_bytes()).expect("a function");
        function()
    }
}

/// A stage that is recorded as a whole.
fn record(inside: impl FnOnce(&TensorProfiler)) -> (TensorReport, String) {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default());
    inside(&profiler);
    drop(session);
    (profiler.snapshot(), profiler.summary())
}

fn numbers(report: &TensorReport) -> Vec<u32> {
    report.device_counters.iter().map(|device| device.device).collect()
}

fn mean_and_max(device: &DeviceCounterStatistics, counter: DeviceCounter) -> Option<(f64, f64)> {
    let found = device.recording.iter().find(|found| found.counter == counter)?;
    Some((found.mean, found.max))
}

/// The report says this, and has so many devices.
fn says(note: &str, devices: usize) {
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

fn samples() {
    let trace = Arc::new(Mutex::new(Vec::new()));
    let place = trace.clone();
    let profiler = TensorProfiler::new().without_schedule().on_trace_ready(move |cycle| {
        kineto::write(cycle, "trace", &mut *place.lock().expect("no panic")).expect("memory");
    });
    let profiler = Arc::new(profiler);
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default());
    for _ in 0..3 {
        let _step = profile!("training_step");
        drop(profile!("too_short"));
        work(100);
    }
    drop(session);
    let (report, text) = (profiler.snapshot(), profiler.summary());
    println!("{text}");
    assert!(has_no_notes(&report), "{text}");
    // The library has its devices in the opposite order of their places on the bus: place 2 is its
    // number 0.
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
        // 5 ms apart as far as the machine allows.
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

fn by_the_program() {
    assert_eq!(DeviceCounters::new().rate(0.0).start(), Err(InvalidRate(0.0)));
    assert!(DeviceCounters::new().rate(f64::NAN).start().is_err());
    DeviceCounters::new().rate(100.0).devices([1]).start().expect("a rate");
    assert!(!has_thread(), "nobody wants to know yet");
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default());
    until("it samples", || counted("fake_utilization_calls") > 1);
    drop(session);
    assert_eq!(numbers(&profiler.snapshot()), [1]);
    // The thread keeps no profiler alive.
    let gone = Arc::downgrade(&profiler);
    drop(profiler);
    until("the profiler is let go", || gone.upgrade().is_none());
    let asked = counted("fake_utilization_calls");
    work(50);
    assert_eq!(counted("fake_utilization_calls"), asked, "and asks nobody meanwhile");

    DeviceCounters::new().devices([7]).start().expect("a rate");
    let (report, _) = record(|profiler| {
        let note = "none of the devices [7] is there, only 0, 1, 2";
        until(note, || profiler.summary().contains(note));
        work(50);
    });
    assert_eq!(numbers(&report), [0; 0]);
    // From the middle of a recording on, and up to there.
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

fn steps_of_a_schedule() {
    // So slow that there is no sample but the first one of every cycle.
    DeviceCounters::new().rate(0.01).start().expect("a rate");
    let schedule = Schedule::new().wait(1).warmup(1).active(1).repeat(0);
    let profiler = TensorProfiler::new().export_trace(false).schedule(schedule);
    let profiler = Arc::new(profiler.expect("a schedule"));
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default());
    for _ in 0..9 {
        work(100);
        profiler.step();
    }
    drop(session);
    let report = profiler.snapshot();
    assert_eq!(numbers(&report), [0, 1, 2]);
    assert_eq!((report.cycle_count, report.device_counters[0].samples), (3, 3));
    assert_eq!(report.device_counters[0].interval_seconds, None);
    // A profiler that does not want to know of devices.
    let asked = counted("fake_utilization_calls");
    let simple =
        Session::begin(Arc::new(SimpleProfiler::new()), Stage::Validate, &RunContext::default());
    work(30);
    drop(simple);
    assert_eq!(counted("fake_utilization_calls"), asked);
}

fn not_asked_for() {
    let (report, text) = record(|_| {
        drop(profile!("work"));
        work(30);
        assert!(!has_thread());
    });
    assert!(report.device_counters.is_empty() && !text.contains("Device 0"), "{text}");
}

fn what_a_device_lacks() {
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

/// But those that there are neither a driver nor a framework here.
fn has_no_notes(report: &TensorReport) -> bool {
    let expected =
        ["no kernels and copies of CUDA", "there are no ops, because nothing tells of any"];
    let is_expected = |note: &String| expected.iter().any(|expected| note.starts_with(expected));
    report.header.notes.iter().all(is_expected)
}

fn a_device_that_is_lost() {
    let (report, text) =
        record(|profiler| until("it is lost", || profiler.summary().contains("is lost")));
    assert_eq!(report.device_counters[0].samples, 5, "{text}");
    assert_eq!(text.matches("device 0 is lost").count(), 1, "{text}");
    assert_eq!(counted("fake_utilization_calls"), 6);
}

fn several_models_in_a_known_order() {
    let (report, text) = record(|_| until("it samples", || counted("fake_utilization_calls") > 6));
    assert_eq!(numbers(&report), [0, 1, 2]);
    assert!(has_no_notes(&report), "{text}");
}

fn forks_while_it_samples() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default());
    until("it samples", || has_thread() && counted("fake_utilization_calls") > 0);
    for round in 0..100 {
        let _scope = profiler.profile("fork");
        // SAFETY: the child records something and ends.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: ends the child if it hangs.
            unsafe { libc::alarm(20) };
            // What the parent records is none of the child's: a recording of its own begins.
            profiler.pause();
            let (report, _) = record(|profiler| {
                drop(profile!("in the child"));
                if round % 5 == 0 {
                    let note = "it was forked after NVML was loaded";
                    until(note, || profiler.summary().contains(note));
                }
            });
            let is_well = report.device_counters.is_empty();
            match round % 2 {
                // SAFETY: ends the child without what the parent does at its end.
                0 => unsafe { libc::_exit(i32::from(!is_well)) },
                _ => std::process::exit(i32::from(!is_well)),
            }
        }
        let mut status = 0;
        // SAFETY: room for the status.
        assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
        assert_eq!(status, 0, "round {round}");
    }
    drop(session);
    let report = profiler.snapshot();
    assert!(report.device_counters[0].samples > 10);
}

/// The library says if it is used after its end.
fn ends_while_it_samples() {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session = Session::begin(profiler, Stage::Fit, &RunContext::default());
    until("it samples", || has_thread() && counted("fake_utilization_calls") > 1);
    std::mem::forget(session);
    std::process::exit(0);
}

/// The program does not wait for it, neither between steps nor at the end.
fn a_slow_device() {
    let schedule = Schedule::new().wait(0).warmup(1).active(1).repeat(0);
    let profiler = TensorProfiler::new().export_trace(false).schedule(schedule);
    let profiler = Arc::new(profiler.expect("a schedule"));
    let session = Session::begin(profiler.clone(), Stage::Fit, &RunContext::default());
    work(50);
    let start = Instant::now();
    for _ in 0..20 {
        drop(profile!("step"));
        profiler.step();
    }
    drop(session);
    assert!(start.elapsed() < Duration::from_millis(600), "{:?}", start.elapsed());
}
