//! Scenes of the tests and their helpers.

mod failures;
mod processes;
mod recordings;

use std::sync::Arc;
use std::time::{Duration, Instant};

use mlprof_core::report::tensor::TensorReport;
use mlprof_core::{Profiler, RunContext, Session, Stage, TensorProfiler};

pub struct Scene {
    pub name: &'static str,
    /// Environment variables, in addition to that of the fake NVML.
    pub environment: &'static [(&'static str, &'static str)],
    pub play: fn(),
}

const RATE: (&str, &str) = ("MLPROF_DEVICE_COUNTERS", "200");
const LIBRARY: &str = "MLPROF_NVML_LIBRARY";

pub const ALL: &[Scene] = &[
    Scene {
        name: "samples",
        environment: &[RATE, ("CUDA_VISIBLE_DEVICES", "2,gpu-1")],
        play: recordings::samples,
    },
    Scene { name: "by the program", environment: &[], play: recordings::by_the_program },
    Scene { name: "steps of a schedule", environment: &[], play: recordings::steps_of_a_schedule },
    Scene { name: "not asked for", environment: &[], play: recordings::not_asked_for },
    Scene { name: "asked now and then", environment: &[], play: recordings::asked_now_and_then },
    Scene { name: "off", environment: &[("MLPROF_DEVICE_COUNTERS", "0")], play: recordings::off },
    Scene {
        name: "what a device lacks",
        environment: &[RATE, ("FAKE_NVML_LACKS", "power clocks"), ("FAKE_NVML_DEVICES", "1")],
        play: failures::missing_counters,
    },
    Scene {
        name: "a device that is lost",
        environment: &[RATE, ("FAKE_NVML_LOST", "yes"), ("FAKE_NVML_DEVICES", "1")],
        play: failures::a_device_that_is_lost,
    },
    Scene {
        name: "several models",
        environment: &[RATE, ("FAKE_NVML_MODELS", "several")],
        play: || failures::says("CUDA_DEVICE_ORDER=PCI_BUS_ID", 3),
    },
    Scene {
        name: "several models in a known order",
        environment: &[RATE, ("FAKE_NVML_MODELS", "several"), ("CUDA_DEVICE_ORDER", "PCI_BUS_ID")],
        play: failures::several_models_in_a_known_order,
    },
    Scene {
        name: "no library",
        environment: &[RATE, (LIBRARY, "/nowhere/libnvidia-ml.so.1")],
        play: || {
            failures::says(
                "no device counters: cannot load NVML (/nowhere/libnvidia-ml.so.1): ",
                0,
            );
        },
    },
    Scene {
        name: "another library",
        environment: &[RATE, (LIBRARY, "libm.so.6")],
        play: || failures::says("no device counters: libm.so.6 is not NVML", 0),
    },
    Scene {
        name: "no driver",
        environment: &[RATE, ("FAKE_NVML_INIT", "9")],
        play: || {
            failures::says(
                "no device counters: NVML is installed, but NVIDIA's driver is not loaded",
                0,
            )
        },
    },
    Scene {
        name: "not permitted",
        environment: &[RATE, ("FAKE_NVML_INIT", "4")],
        play: || failures::says("no device counters: this process is not permitted", 0),
    },
    Scene {
        name: "versions differ",
        environment: &[RATE, ("FAKE_NVML_INIT", "18")],
        play: || {
            failures::says("no device counters: NVML and the running driver have different", 0)
        },
    },
    Scene {
        name: "no device",
        environment: &[RATE, ("FAKE_NVML_DEVICES", "0")],
        play: || failures::says("no device counters: NVML finds no device for this process", 0),
    },
    Scene {
        name: "none visible",
        environment: &[RATE, ("CUDA_VISIBLE_DEVICES", "")],
        play: || {
            failures::says("no device counters: CUDA_VISIBLE_DEVICES= names no existing device", 0)
        },
    },
    Scene {
        name: "only a part",
        environment: &[RATE, ("CUDA_VISIBLE_DEVICES", "MIG-1234")],
        play: || failures::says("CUDA_VISIBLE_DEVICES=MIG-1234 names MIG instances", 0),
    },
    Scene {
        name: "no rate",
        environment: &[("MLPROF_DEVICE_COUNTERS", "often")],
        play: || failures::says("MLPROF_DEVICE_COUNTERS=often is not a sampling rate", 0),
    },
    Scene {
        name: "forks while it samples",
        environment: &[("MLPROF_DEVICE_COUNTERS", "1000")],
        play: processes::forks_while_it_samples,
    },
    Scene {
        name: "ends while it samples",
        environment: &[("MLPROF_DEVICE_COUNTERS", "1000"), ("FAKE_NVML_SLOW", "20000")],
        play: processes::ends_while_it_samples,
    },
    Scene {
        name: "asked, and never answers",
        environment: &[("FAKE_NVML_ANSWERS", "never")],
        play: processes::asked_and_never_answers,
    },
    Scene {
        name: "a device that never answers",
        environment: &[RATE, ("FAKE_NVML_ANSWERS", "never")],
        play: processes::a_device_that_never_answers,
    },
];

/// Lets the thread work for this time.
fn work(milliseconds: u64) {
    std::thread::sleep(Duration::from_millis(milliseconds));
}

/// Waits until a condition holds. The time limit is generous, because the machine may be busy.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < Duration::from_secs(20), "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns `true` if this process has the sampling thread.
fn has_thread() -> bool {
    let tasks = std::fs::read_dir("/proc/self/task").expect("the threads");
    let names =
        tasks.filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
    names.into_iter().any(|name| name.starts_with("mlprof-device"))
}

/// Returns a counter of the fake NVML.
fn counted(what: &str) -> u32 {
    let path = std::env::var_os(LIBRARY).expect("the library");
    // SAFETY: the library is already loaded, so its initialisers do not run again. `nvml.c` defines
    // the function with this type.
    unsafe {
        let library = libloading::Library::new(path).expect("it has been loaded");
        let function = library.get::<extern "C" fn() -> u32>(what.as_bytes()).expect("a function");
        function()
    }
}

/// Records a stage as a whole.
fn record(inside: impl FnOnce(&TensorProfiler)) -> (TensorReport, String) {
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let session =
        Session::begin(profiler.clone(), Stage::Fit, &RunContext::default()).expect("a profiler");
    inside(&profiler);
    drop(session);
    (profiler.snapshot(), profiler.summary())
}

fn numbers(report: &TensorReport) -> Vec<u32> {
    report.device_counters.iter().map(|device| device.device).collect()
}

/// Returns `true` if the report has no notes, except for those about the missing driver and
/// framework.
fn has_no_notes(report: &TensorReport) -> bool {
    let expected = ["no CUDA kernels and copies", "there are no ops, because no hook reports them"];
    let is_expected = |note: &String| expected.iter().any(|expected| note.starts_with(expected));
    report.header.notes.iter().all(is_expected)
}
