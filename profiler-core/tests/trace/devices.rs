//! Tests of launches and the device work that they cause.

use std::time::Instant;

use mlprof_core::hook::{DeviceActivity, DeviceEvent, OpStart, TimingMethod};
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Action, ActionKind, Observation, Profiler, ProfilerExt, RunContext, Stage, TensorProfiler,
};
use serde_json::Value;

use crate::parsed::Trace;
use crate::recorded::{action, kernel, op, run, spin, trace};

/// Records a launch and returns an upper limit for its start time.
fn launch(profiler: &TensorProfiler, name: &str, correlation: u32) -> Instant {
    let action = Action::of_kind(ActionKind::Launch, name, None);
    run(profiler, &OpStart::launch(action, correlation), || spin(20));
    Instant::now()
}

#[test]
fn kernels_are_on_the_stream_of_their_device_and_tied_to_launch_and_op() {
    let text = trace(|profiler| {
        action(profiler, "forward", || {
            op(profiler, "aten::mm", || {
                let launched = launch(profiler, "cudaLaunchKernel", 11);
                profiler.observe(&Observation::DeviceEvent(&kernel("gemm", 11, launched, 10, 100)));
                let launched = launch(profiler, "cuLaunchKernelEx", 12);
                profiler.observe(&Observation::DeviceEvent(&kernel("bias", 12, launched, 200, 10)));
            });
            let launched = launch(profiler, "cuMemcpyHtoDAsync_v2", 13);
            profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
                activity: DeviceActivity::Copy,
                bytes: 5_000_000,
                device: 1,
                stream: 20,
                ..kernel("Memcpy HtoD", 13, launched, 300, 1000)
            }));
            let launched = launch(profiler, "hipMemset", 14);
            profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
                activity: DeviceActivity::Fill,
                method: TimingMethod::Host,
                ..kernel("Memset", 14, launched, 2000, 1)
            }));
        });
    });
    let trace = Trace::of(&text);
    let (gemm, bias, copy) = (trace.slice("gemm"), trace.slice("bias"), trace.slice("Memcpy HtoD"));
    assert_eq!([gemm.track, bias.track, copy.track], [(0, 7), (0, 7), (1, 20)]);
    let op = trace.slice("aten::mm").args["External id"].clone();
    assert_eq!([&gemm.args["External id"], &bias.args["External id"]], [&op, &op]);
    assert_eq!(copy.args["External id"], 0, "it was called outside of any op");
    assert_eq!([&gemm.args["stream"], &gemm.args["device"]], [7, 0]);
    assert_eq!((copy.category.as_str(), &copy.args["bytes"]), ("gpu_memcpy", &5_000_000.into()));
    let bandwidth = copy.args["memory bandwidth (GB/s)"].as_f64().expect("a number");
    assert!((bandwidth - 5.0).abs() < 0.01, "{bandwidth}");
    let fill = trace.slice("Memset");
    assert_eq!((fill.category.as_str(), &fill.args["timed by"]), ("gpu_memset", &"host".into()));
    // Every launch has a name that analysis tools know, and its real name as an argument.
    let mut launches: Vec<_> = trace.slices();
    launches.retain(|slice| slice.category == "cuda_runtime");
    launches.sort_by_key(|slice| slice.start);
    let names: Vec<_> = launches.iter().map(|slice| slice.name.as_str()).collect();
    let expected = ["cudaLaunchKernel", "cudaLaunchKernel", "cudaMemcpyAsync", "cudaMemsetAsync"];
    assert_eq!(names, expected);
    let api: Vec<_> = launches.iter().map(|slice| slice.args["api"].as_str()).collect();
    assert_eq!(
        api,
        [None, Some("cuLaunchKernelEx"), Some("cuMemcpyHtoDAsync_v2"), Some("hipMemset")]
    );
    assert_eq!(trace.of_phase("f").count(), 4);
    let names = trace.track_names();
    assert_eq!([&names[&(0, 7)], &names[&(1, 20)]], ["stream 7", "stream 20"]);
    let devices = trace.all["deviceProperties"].as_array().map(Vec::len);
    assert_eq!(devices, Some(2));
}

#[test]
fn a_device_whose_clock_is_behind_is_shifted_as_a_whole() {
    let text = trace(|profiler| {
        let before = Instant::now();
        launch(profiler, "cudaLaunchKernel", 1);
        let second = launch(profiler, "cudaLaunchKernel", 2);
        profiler.observe(&Observation::DeviceEvent(&kernel("early", 1, before, -500, 10)));
        profiler.observe(&Observation::DeviceEvent(&kernel("late", 2, second, 100, 10)));
        let other = kernel("other device", 0, second, 100, 10);
        profiler.observe(&Observation::DeviceEvent(&DeviceEvent { device: 1, ..other }));
    });
    let trace = Trace::of(&text);
    let shift = trace.all["deviceProperties"][0]["clock_shift_ns"].as_i64().expect("a number");
    assert!((490_000..=10_000_000).contains(&shift), "{shift}");
    assert_eq!(trace.all["deviceProperties"][1]["clock_shift_ns"], 0);
    let launches: Vec<_> =
        trace.slices().into_iter().filter(|slice| slice.category == "cuda_runtime").collect();
    let first = launches.iter().map(|slice| slice.start).min();
    assert_eq!(Some(trace.slice("early").start), first, "the least that puts it right");
    assert_eq!(trace.of_phase("f").count(), 2);
}

#[test]
fn a_clock_that_makes_no_sense_is_not_hidden() {
    let text = trace(|profiler| {
        let launched = launch(profiler, "cudaLaunchKernel", 1);
        profiler.observe(&Observation::DeviceEvent(&kernel(
            "from another time",
            1,
            launched,
            -5_000_000,
            10,
        )));
        let launched = launch(profiler, "cudaLaunchKernel", 2);
        profiler.observe(&Observation::DeviceEvent(&kernel("fine", 2, launched, 10, 10)));
    });
    let trace = Trace::of(&text);
    assert_eq!(trace.all["deviceProperties"][0]["clock_shift_ns"], 0);
    let args = trace.slice("from another time").args;
    assert_eq!(args["correlation"], Value::Null);
    let early = args["before launch (us)"].as_f64().expect("a number");
    assert!((4_900_000.0..5_000_001.0).contains(&early), "{early}");
    assert_eq!(trace.of_phase("f").count(), 1);
}

#[test]
fn kernels_that_overlap_on_a_stream_get_further_tracks() {
    let text = trace(|profiler| {
        let now = Instant::now();
        for number in 0..3 {
            profiler.observe(&Observation::DeviceEvent(&kernel(
                &format!("kernel {number}"),
                0,
                now,
                number * 5,
                12,
            )));
        }
        // Streams 0 and 7 must stay separate.
        profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
            stream: 7,
            ..kernel("on 7", 0, now, 0, 100)
        }));
    });
    let trace = Trace::of(&text);
    let track = |name: &str| trace.slice(name).track;
    let tracks = [track("kernel 0"), track("kernel 1"), track("kernel 2"), track("on 7")];
    assert_eq!(tracks.iter().collect::<std::collections::HashSet<_>>().len(), 4);
    assert!(tracks.iter().all(|track| track.0 == 0));
    assert_eq!(track("on 7"), (0, 7));
    assert_eq!(trace.slice("kernel 1").args["stream"], 8);
}

#[test]
fn tuning_is_overhead_of_the_host() {
    let text = trace(|profiler| {
        let now = Instant::now();
        let tuning = kernel("autotune matmul", 0, now, 0, 5000);
        profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
            activity: DeviceActivity::Tuning,
            ..tuning
        }));
        op(profiler, "matmul", || {});
    });
    let trace = Trace::of(&text);
    let tuning = trace.slice("autotune matmul");
    assert_eq!(tuning.category, "overhead");
    assert_eq!(tuning.track.0, trace.slice("matmul").track.0);
    assert_ne!(tuning.track, trace.slice("matmul").track);
    assert_eq!(trace.track_names()[&tuning.track], "tuning for device 0");
}

#[test]
fn kernels_without_times_are_named_with_their_launch() {
    let text = trace(|profiler| {
        let launched = launch(profiler, "launch", 5);
        let untimed = kernel("some kernel", 5, launched, 0, 0);
        profiler.observe(&Observation::DeviceEvent(&DeviceEvent {
            method: TimingMethod::None,
            ..untimed
        }));
    });
    let trace = Trace::of(&text);
    assert_eq!(trace.slices().len(), 1, "nobody knows when it ran");
    assert_eq!(trace.slice("cudaLaunchKernel").args["kernel"], "some kernel");
    assert_eq!(trace.of_phase("s").count() + trace.of_phase("f").count(), 0);
}

#[test]
fn calls_that_launch_nothing_keep_their_names_and_say_whose_they_are() {
    let text = trace(|profiler| {
        launch(profiler, "cuMemAllocAsync", 5);
        launch(profiler, "cudaStreamSynchronize", 6);
        launch(profiler, "customLaunch", 7);
    });
    let trace = Trace::of(&text);
    let category = |name: &str| trace.slice(name).category;
    assert_eq!(category("cuMemAllocAsync"), "cuda_driver");
    assert_eq!(category("cudaStreamSynchronize"), "cuda_runtime");
    assert_eq!(category("customLaunch"), "cuda_runtime");
}

/// Checks the reasons for idle time in the report. One launch comes during the previous kernel, one
/// after its end, and one is unknown.
#[test]
fn a_device_is_idle_for_a_reason() {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    let profiler = TensorProfiler::new().schedule(schedule);
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..2 {
        let start = launch(&profiler, "cudaLaunchKernel", 1);
        launch(&profiler, "cudaLaunchKernel", 2);
        launch(&profiler, "cudaLaunchKernel", 3);
        spin(11_000);
        launch(&profiler, "cudaLaunchKernel", 4);
        let stream = |stream: u32, event: DeviceEvent| {
            profiler.observe(&Observation::DeviceEvent(&DeviceEvent { stream, ..event }));
        };
        stream(7, kernel("first", 1, start, 1_000, 4_000)); // to 5 ms
        stream(7, kernel("behind", 2, start, 5_010, 1_000)); // to 6.01 ms
        stream(8, kernel("other stream", 3, start, 8_000, 2_000)); // to 10 ms
        stream(7, kernel("late", 4, start, 20_000, 1_000)); // to 21 ms
        stream(7, kernel("from nowhere", 0, start, 22_000, 1_000)); // to 23 ms
        // Waits and events timed by the host do not count as work of the device.
        let wait = kernel("wait", 0, start, 30_000, 1_000);
        stream(7, DeviceEvent { activity: DeviceActivity::Synchronization, ..wait });
        stream(7, DeviceEvent { method: TimingMethod::Host, ..wait });
        profiler.step();
    }
    profiler.teardown(None);
    let report = profiler.snapshot();
    let idle = &report.device_idle;
    let queues: Vec<_> = idle.iter().map(|idle| (idle.device, idle.stream, idle.events)).collect();
    assert_eq!(queues, [(0, None, 10), (0, Some(7), 8), (0, Some(8), 2)]);
    let close = |value: f64, milliseconds: f64| {
        assert!(
            (value * 1e3 - 2.0 * milliseconds).abs() < 1e-2,
            "{value} is not 2 × {milliseconds} ms"
        );
    };
    let all = &idle[0];
    close(all.window_seconds, 22.0);
    close(all.busy_seconds, 9.0);
    close(all.launch.seconds, 0.01);
    close(all.host_wait.seconds, 10.0);
    close(all.other.seconds, 1.99);
    close(all.unknown.seconds, 1.0);
    for idle in idle {
        let sum = idle.busy_seconds + idle.idle_seconds();
        assert!((sum - idle.window_seconds).abs() < 1e-12, "{idle:?}");
    }
    assert_eq!((all.host_wait.count, all.launch.count, all.other.count), (2, 2, 2));
    let text = profiler.summary();
    assert!(text.contains("Device idle time by cause (10 kernels and copies)"), "{text}");
}
