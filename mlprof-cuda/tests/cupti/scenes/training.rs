//! Scenes that check the recorded device work of a training step.

use std::path::Path;

use mlprof_core::hook::MemoryDevice;
use mlprof_core::tensor::Schedule;
use mlprof_core::{ProfilerExt, TensorProfiler, profile};
use serde_json::Value;

use super::{RunResults, op, record, record_steps, run, slices};
use crate::fake::cuda;

const GEMM: &str = "_Z4gemmPfS_";
const MICROSECONDS: u64 = 1_000;

/// Runs a step: forward with two ops and backward with one, with 100 µs of kernels and 60 µs of
/// copies.
fn step() {
    let cuda = cuda();
    {
        let _forward = profile!("forward");
        op("aten::linear", || {
            op("aten::mm", || cuda.launch(GEMM, 7, 40 * MICROSECONDS));
            op("aten::add", || cuda.launch("add_kernel", 7, 10 * MICROSECONDS));
        });
        cuda.copy(20, 6_000_000, 60 * MICROSECONDS);
    }
    let _backward = profile!("backward");
    op("aten::mm_backward", || {
        cuda.launch(GEMM, 7, 30 * MICROSECONDS);
        cuda.fill(7, 4096, 20 * MICROSECONDS);
    });
    cuda.wait(7);
}

fn is_close(seconds: f64, microseconds: f64) -> bool {
    (seconds * 1e6 - microseconds).abs() < 0.05 + microseconds * 0.002
}

pub fn kernels_under_ops() {
    check(&record(|_| step()));
}

/// Checks that `MLPROF_CUPTI_LIBRARY` may be the folder of the library.
pub fn kernels_under_ops_in_a_folder() {
    let folder = std::env::var_os("MLPROF_CUPTI_LIBRARY").expect("a folder");
    // A loaded library takes precedence, so the fake CUDA must load it from the same file.
    let file = Path::new(&folder).join("libcupti.so.12");
    // SAFETY: no other thread of the process reads or writes the environment at this time.
    unsafe { std::env::set_var("MLPROF_CUPTI_LIBRARY", file) };
    check(&record(|_| step()));
}

fn check(ran: &RunResults) {
    let report = &ran.report;
    assert_eq!(report.key_averages.device_name, "CUDA", "{}", ran.text);
    let device = |name: &str| {
        let row = ran.row(name);
        (row.self_device_seconds, row.device_seconds, row.calls)
    };
    // Device times by kernel.
    let (own, total, calls) = device("gemm(float*, float*)");
    assert!(is_close(own, 70.0) && is_close(total, 70.0) && calls == 2, "{}", ran.text);
    // Device times by op. The self time is that of the op's own launches.
    let (own, total, _) = device("aten::mm");
    assert!(is_close(own, 40.0) && is_close(total, 40.0), "{}", ran.text);
    let (own, total, _) = device("aten::linear");
    assert!(is_close(own, 0.0) && is_close(total, 50.0), "{}", ran.text);
    let (own, total, _) = device("aten::mm_backward");
    assert!(is_close(own, 50.0) && is_close(total, 50.0), "{}", ran.text);
    // Device times by action. The copy belongs to no op.
    let (own, total, _) = device("forward");
    assert!(is_close(own, 60.0) && is_close(total, 110.0), "{}", ran.text);
    assert!(is_close(device("Memcpy HtoD (Pageable -> Device)").0, 60.0));
    assert!(is_close(device("Memset (Device)").0, 20.0));
    // Calls have host time only, and frequent query calls are not reported.
    let calls = ran.row("cudaLaunchKernel");
    assert_eq!((calls.calls, calls.self_device_seconds), (3, 0.0));
    assert!(calls.cpu_seconds > 0.0, "{}", ran.text);
    assert_eq!(ran.row("cudaStreamSynchronize").calls, 1);
    assert!(!ran.text.contains("cudaGetDevice") && !ran.text.contains("cuLaunchKernel"));
    assert!(ran.notes().is_empty(), "{:?}", ran.notes());
    for title in ["Self CUDA", "CUDA total", "CUDA time avg", "Self CUDA time total: 1"] {
        assert!(ran.text.contains(title), "{title}: {}", ran.text);
    }
}

fn find<'trace>(slices: &[&'trace Value], name: &str) -> &'trace Value {
    slices.iter().find(|slice| slice["name"] == name).unwrap_or_else(|| panic!("no {name}"))
}

/// Returns the earliest slice with this name prefix.
fn find_in<'trace>(slices: &[&'trace Value], name: &str) -> &'trace Value {
    let is_it = |slice: &&&Value| slice["name"].as_str().is_some_and(|it| it.starts_with(name));
    let earlier = |one: &&&Value, other: &&&Value| interval(one).0.total_cmp(&interval(other).0);
    slices.iter().filter(is_it).min_by(earlier).unwrap_or_else(|| panic!("no {name}"))
}

fn interval(slice: &Value) -> (f64, f64) {
    let start = slice["ts"].as_f64().expect("a number");
    (start, start + slice["dur"].as_f64().expect("a number"))
}

pub fn the_trace() {
    let ran = record(|_| {
        let _around = profile!("run_training_batch");
        step();
        cuda().overhead(1 << 16, 5 * MICROSECONDS);
    });
    let trace = &ran.traces[0];
    let (kernels, launches) = (slices(trace, "kernel"), slices(trace, "cuda_runtime"));
    assert_eq!(kernels.len(), 3);
    // Streams are tracks of their device.
    let gemm = find(&kernels, "gemm(float*, float*)");
    assert_eq!((&gemm["pid"], &gemm["tid"]), (&0.into(), &7.into()));
    let copy = slices(trace, "gpu_memcpy")[0];
    assert_eq!((&copy["tid"], &copy["args"]["bytes"]), (&20.into(), &6_000_000.into()));
    let bandwidth = copy["args"]["memory bandwidth (GB/s)"].as_f64().expect("a number");
    assert!((bandwidth - 100.0).abs() < 0.5, "6 MB in 60 µs: {bandwidth}");
    // The launch configuration and the occupancy of an H100: 256 threads with 32 registers fill the
    // 2,048 threads of a multiprocessor. However, there is less than one block per multiprocessor.
    let arguments = &gemm["args"];
    assert_eq!(arguments["grid"], serde_json::json!([64, 2, 1]));
    assert_eq!(arguments["block"], serde_json::json!([256, 1, 1]));
    assert_eq!(arguments["registers per thread"], 32);
    assert_eq!(arguments["shared memory"], 1536);
    assert_eq!(arguments["blocks per SM"], 0.97);
    assert_eq!(arguments["warps per SM"], 7.758);
    assert!(arguments["est. achieved occupancy %"].as_u64().is_some_and(|share| share <= 13));
    // Each launch has an arrow to its kernel, which has the same correlation id and begins later.
    for launch in &launches {
        let number = &launch["args"]["correlation"];
        let is_its = |event: &&Value| &event["id"] == number && event["cat"] == "ac2g";
        let arrows = trace["traceEvents"].as_array().expect("a list").iter().filter(is_its).count();
        let launched = kernels.iter().find(|kernel| &kernel["args"]["correlation"] == number);
        let is_wait = launch["name"] == "cudaStreamSynchronize";
        assert_eq!(arrows, if is_wait { 0 } else { 2 }, "{launch}");
        if let Some(kernel) = launched {
            assert!(interval(kernel).0 >= interval(launch).0, "{kernel} {launch}");
        }
    }
    // A call lies within the op that made it.
    let ops = slices(trace, "cpu_op");
    let mm = interval(find(&ops, "aten::mm"));
    let inside = |launch: &&&Value| {
        let (start, end) = interval(launch);
        mm.0 <= start && end <= mm.1
    };
    assert_eq!(launches.iter().filter(inside).count(), 1);
    // These are the device spans of each action on each stream.
    let spans = slices(trace, "gpu_user_annotation");
    let forward: Vec<_> = spans.iter().filter(|span| span["name"] == "forward").collect();
    assert_eq!(forward.len(), 2, "on two streams");
    let on_7 = forward.iter().find(|span| span["tid"] == 7).expect("one on stream 7");
    let (first, last) =
        (interval(find_in(&kernels, "gemm")), interval(find(&kernels, "add_kernel")));
    assert_eq!(interval(on_7).0, first.0, "from the first kernel");
    assert!((interval(on_7).1 - last.1).abs() < 0.002, "to the last one: {on_7}");
    let around = spans.iter().find(|span| span["name"] == "run_training_batch" && span["tid"] == 7);
    let around = interval(around.expect("what is around has all of that"));
    let filled = interval(slices(trace, "gpu_memset")[0]);
    assert!(around.0 == first.0 && (around.1 - filled.1).abs() < 0.002, "until the last fill");
    assert_eq!(slices(trace, "cuda_sync").len(), 1);
    assert_eq!(slices(trace, "overhead")[0]["name"], "CUDA: Buffer Flush");
    // CUPTI's own overhead is not a kernel and does not count as compilation.
    assert!(ran.text.contains("took 5.00 µs of host time, 5.00 µs of it for CUDA: Buffer Flush"));
    assert!(!ran.text.contains("Compiling and tuning"), "{}", ran.text);
    assert!(!ran.text.contains("timed by the host"), "{}", ran.text);
    let device = &trace["deviceProperties"][0];
    assert_eq!(
        (&device["name"], &device["numSms"]),
        (&"A device of the tests".into(), &132.into())
    );
    assert_eq!(
        (&device["computeMajor"], &device["totalGlobalMem"]),
        (&9.into(), &(80_u64 << 30).into())
    );
    assert_eq!(device["clock_shift_ns"], 0, "both clocks are one");
}

/// Checks that launches belong to the ops of their thread, regardless of other threads. This also
/// holds for threads that have ended.
pub fn threads() {
    let ran = record(|_| {
        std::thread::scope(|scope| {
            for thread in 0..4_u32 {
                scope.spawn(move || {
                    let names = ["op 0", "op 1", "op 2", "op 3"];
                    for _ in 0..500 {
                        op(names[thread as usize], || {
                            cuda().launch(&format!("kernel {thread}"), thread + 1, 1_000);
                        });
                    }
                });
            }
        });
        // The records of this thread arrive while it terminates.
        std::thread::spawn(|| {
            op("op of the dead", || cuda().launch("kernel of the dead", 9, 1_000));
            panic!("on purpose");
        })
        .join()
        .expect_err("it has panicked");
    });
    for thread in 0..4 {
        let (op, kernel) = (format!("op {thread}"), format!("kernel {thread}"));
        assert_eq!((ran.row(&op).calls, ran.row(&kernel).calls), (500, 500));
        assert!(is_close(ran.row(&op).self_device_seconds, 500.0), "{}", ran.text);
    }
    assert!(is_close(ran.row("op of the dead").self_device_seconds, 1.0), "{}", ran.text);
    assert!(ran.notes().is_empty(), "{:?}", ran.notes());
}

/// Checks that a kernel outside all ops is shown and noted.
pub fn no_op() {
    let ran = record(|_| {
        let launched = std::thread::spawn(|| cuda().launch("lonely", 1, 3_000));
        launched.join().expect("it ends");
    });
    assert!(is_close(ran.row("lonely").self_device_seconds, 3.0), "{}", ran.text);
    assert!(ran.has_note("1 kernel has device time but no known op"), "{:?}", ran.notes());
    let trace = &ran.traces[0];
    assert_eq!((slices(trace, "kernel").len(), slices(trace, "cuda_runtime").len()), (1, 1));
}

/// Checks that an allocation belongs to the op around the call.
pub fn memory() {
    let profiler = TensorProfiler::new().without_schedule().profile_memory(true);
    let ran = run(profiler, |_| {
        let cuda = cuda();
        op("aten::empty", || cuda.allocate(0x1000, 1 << 20));
        let _backward = profile!("backward");
        op("aten::zeros", || {
            cuda.allocate(0x2000, 3 << 20);
            cuda.free(0x1000, 1 << 20);
        });
    });
    assert_eq!(ran.row("aten::empty").self_device_memory_bytes, 1 << 20, "{}", ran.text);
    assert_eq!(ran.row("aten::zeros").self_device_memory_bytes, 2 << 20, "{}", ran.text);
    assert_eq!(ran.row("backward").device_memory_bytes, 2 << 20, "{}", ran.text);
    let allocated = &ran.row("aten::zeros").memory;
    let on_device = allocated.iter().find(|memory| memory.device == MemoryDevice::Accelerator(0));
    assert!(on_device.is_some(), "{allocated:?}");
    assert!(ran.text.contains("CUDA Mem"), "{}", ran.text);
    let is_memory =
        |event: &&Value| event["name"] == "[memory]" && event["args"]["Device Type"] == 1;
    let events = ran.traces[0]["traceEvents"].as_array().expect("a list");
    let totals: Vec<_> =
        events.iter().filter(is_memory).map(|event| &event["args"]["Total Allocated"]).collect();
    assert_eq!(totals, [1 << 20, 4 << 20, 3 << 20]);
}

/// Checks that only active steps are recorded, and that each cycle has its own records.
pub fn two_cycles() {
    let schedule = Schedule::new().wait(1).warmup(1).active(2).repeat(2);
    let ran = record_steps(schedule, |profiler| {
        for _ in 0..10 {
            step();
            profiler.step();
        }
    });
    assert_eq!(ran.traces.len(), 2);
    for trace in &ran.traces {
        assert_eq!(slices(trace, "kernel").len(), 6);
        let spans = slices(trace, "gpu_user_annotation");
        let count = |name: &str| spans.iter().filter(|span| span["name"] == name).count();
        assert_eq!(
            (count("forward"), count("backward")),
            (4, 2),
            "two steps, on two streams and one"
        );
    }
    assert_eq!(ran.row("aten::mm").calls, 4);
    assert!(is_close(ran.row("aten::mm").self_device_seconds, 160.0), "{}", ran.text);
    assert!(ran.notes().is_empty(), "{:?}", ran.notes());
    assert!(!cuda().is_claimed(), "others may use it now");
}

/// Checks that kernels are attributed to the open action if their calls are not reported.
pub fn by_action_alone() {
    let ran = record(|_| {
        step();
        std::thread::spawn(step).join().expect("it ends");
    });
    let forward = ran.row("forward");
    assert!(is_close(forward.self_device_seconds, 220.0), "{}", ran.text);
    assert!(is_close(ran.row("backward").self_device_seconds, 100.0), "{}", ran.text);
    assert!(!ran.has_note("no known op or action"), "{:?}", ran.notes());
}

/// Checks a CUPTI that does not support our clock, so that both clocks are compared.
pub fn a_clock_of_its_own() {
    let ran = record(|_| {
        // The pauses are long enough that an op is found despite slightly inaccurate times.
        let slow = |name, kernel| {
            op(name, || {
                std::thread::sleep(std::time::Duration::from_millis(5));
                cuda().launch(kernel, 7, 1_000 * MICROSECONDS);
                std::thread::sleep(std::time::Duration::from_millis(5));
            });
        };
        slow("aten::mm", GEMM);
        slow("aten::add", "add_kernel");
    });
    assert!((ran.row("aten::mm").self_device_seconds - 1e-3).abs() < 1e-6, "{}", ran.text);
    assert!((ran.row("aten::add").self_device_seconds - 1e-3).abs() < 1e-6, "{}", ran.text);
}

/// Checks NVTX ranges if CUPTI is the tool that receives them. Ranges of other libraries are shown,
/// and mlprof's own are omitted because they are actions already.
pub fn ranges_of_libraries() {
    let ran = record(|_| {
        let _forward = profile!("forward");
        cuda().range(c"cuDNN convolution", c"cudnn", || {
            op("aten::conv2d", || cuda().launch("conv_kernel", 7, 40 * MICROSECONDS));
        });
        cuda().range(c"forward again", c"mlprof", || {});
    });
    assert_eq!(ran.row("cuDNN convolution").calls, 1, "{}", ran.text);
    assert!(!ran.text.contains("forward again"), "{}", ran.text);
    assert!(is_close(ran.row("aten::conv2d").self_device_seconds, 40.0), "{}", ran.text);
    let annotations = slices(&ran.traces[0], "user_annotation");
    let (range, forward) = (find(&annotations, "cuDNN convolution"), find(&annotations, "forward"));
    let op = interval(find(&slices(&ran.traces[0], "cpu_op"), "aten::conv2d"));
    let (range, forward) = (interval(range), interval(forward));
    assert!(forward.0 <= range.0 && range.0 <= op.0 && op.1 <= range.1 && range.1 <= forward.1);
}

/// Checks that a kernel without times is omitted without affecting the others.
pub fn no_times() {
    let ran = record(|_| {
        op("aten::mm", || {
            cuda().launch(GEMM, 7, 40 * MICROSECONDS);
            cuda().launch("untimed", 7, 0);
        });
    });
    assert!(is_close(ran.row("aten::mm").self_device_seconds, 40.0), "{}", ran.text);
    assert!(ran.has_note("the numbers exclude 1 kernels and copies"), "{:?}", ran.notes());
    assert_eq!(ran.row("cudaLaunchKernel").calls, 2);
}
