//! Device results worked out by hand.

use mlprof_analysis::WorkKind;

use crate::synthetic::{MAIN, action, analysis, call, op, slice, work};

/// Returns the events of two consecutive kernels, a wait for them, and a copy.
pub fn events() -> Vec<String> {
    vec![
        action("ProfilerStep#1", 0.0, 100.0),
        call("cudaLaunchKernel", 10.0, 5.0, 1),
        call("cudaLaunchKernel", 15.0, 5.0, 2),
        call("cudaDeviceSynchronize", 25.0, 40.0, 0),
        call("cudaMemcpyAsync", 70.0, 5.0, 3),
        work("kernel", "first", 20.0, 20.0, 1),
        work("kernel", "second", 40.0, 20.0, 2),
        work("gpu_memcpy", "Memcpy HtoD", 80.0, 10.0, 3),
        // These two categories are not device work.
        work("cuda_sync", "Context Sync", 25.0, 35.0, 0),
        work("gpu_user_annotation", "forward", 20.0, 40.0, 0),
    ]
}

#[test]
fn the_window_is_divided_up() {
    let analysis = analysis(&events());
    let [device] = &analysis.devices[..] else { panic!("{:?}", analysis.devices) };
    let times = &device.times;
    assert_eq!((device.device, times.window_ns), (0, 100_000));
    assert_eq!((times.compute_ns, times.exposed_memory_ns), (40_000, 10_000));
    assert_eq!(times.exposed_communication_ns, 0);
    let idle = (times.idle_before_ns, times.idle_between_ns, times.idle_after_ns);
    assert_eq!(idle, (20_000, 20_000, 10_000));
    assert_eq!((times.compute_sum_ns, times.memory_sum_ns), (40_000, 10_000));
    let [main] = &analysis.threads[..] else { panic!("{:?}", analysis.threads) };
    assert_eq!((main.waiting_for_device_ns, main.busy_ns), (40_000, 15_000));
}

#[test]
fn streams_say_why_they_are_idle() {
    let analysis = analysis(&events());
    let [stream] = &analysis.devices[0].streams[..] else { panic!("{:?}", analysis.devices) };
    assert_eq!((stream.stream, stream.span_ns, stream.busy_ns), (7, 70_000, 50_000));
    assert_eq!((stream.waiting_for_host_ns, stream.launch_delay_ns), (10_000, 10_000));
    assert_eq!((stream.between_kernels_ns, stream.other_ns), (0, 0));
    assert_eq!(stream.host_wait_ns(), 20_000);
}

#[test]
fn gaps_between_what_was_launched_before_are_told_apart_by_their_length() {
    let events = [
        call("cudaLaunchKernel", 0.0, 1.0, 1),
        call("cudaLaunchKernel", 1.0, 1.0, 2),
        call("cudaLaunchKernel", 2.0, 1.0, 3),
        work("kernel", "k", 10.0, 10.0, 1),
        work("kernel", "k", 25.0, 10.0, 2),
        work("kernel", "k", 75.0, 10.0, 3),
    ];
    let stream = analysis(&events).devices[0].streams[0];
    assert_eq!((stream.between_kernels_ns, stream.other_ns), (5_000, 40_000));
    assert_eq!(stream.span_ns, 75_000);
}

#[test]
fn launches_and_queues_are_weighted_by_time() {
    let analysis = analysis(&events());
    let device = &analysis.devices[0];
    let launches = &device.launches;
    assert_eq!((launches.calls, launches.launched, launches.unknown), (3, 3, 0));
    let delays = (launches.delay_median_ns, launches.delay_p90_ns, launches.delay_max_ns);
    assert_eq!(delays, (5_000, 17_000, 20_000));
    assert_eq!((launches.shorter_than_call, launches.long_calls, launches.long_delays), (0, 0, 0));
    let [queue] = &device.queues[..] else { panic!("{:?}", device.queues) };
    // The queue length is one for 5 µs, two for 5, one for 20, zero for 30 and one for 10.
    assert_eq!((queue.span_ns, queue.max, queue.empty_ns), (70_000, 2, 30_000));
    assert!((queue.mean - 45.0 / 70.0).abs() < 1e-12, "{}", queue.mean);
}

#[test]
fn copies_have_their_bandwidth() {
    let mut events = events();
    // Half of this copy overlaps another one.
    events.push(crate::synthetic::with(
        (0, 8),
        "gpu_memcpy",
        "Memcpy HtoD",
        (85.0, 10.0),
        r#"{"bytes":20000}"#,
    ));
    let analysis = analysis(&events);
    let [copies] = &analysis.devices[0].copies[..] else { panic!("{:?}", analysis.devices) };
    assert_eq!((copies.count, copies.bytes, copies.busy_ns), (2, Some(30_000), 15_000));
    let [mean, max] = [copies.mean_gb_per_s, copies.max_gb_per_s].map(|it| it.expect("a rate"));
    assert!((mean - 2.0).abs() < 1e-9 && (max - 3.0).abs() < 1e-9, "{copies:?}");
}

#[test]
fn communication_is_hidden_or_exposed() {
    let events = [
        slice((0, 7), "kernel", "gemm", 0.0, 50.0),
        slice((0, 20), "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING", 30.0, 40.0),
        // Kernels with the prefix `hip` are not communication.
        slice((0, 7), "kernel", "hipblas_gemm", 60.0, 5.0),
    ];
    let analysis = analysis(&events);
    let device = &analysis.devices[0];
    assert_eq!(device.times.compute_ns, 55_000);
    assert_eq!(device.times.exposed_communication_ns, 15_000);
    let [overlap] = &device.overlap[..] else { panic!("{:?}", device.overlap) };
    assert_eq!(
        (overlap.kind, overlap.total_ns, overlap.hidden_ns),
        (WorkKind::Communication, 40_000, 25_000)
    );
    assert_eq!(device.launches.unknown, 3);
}

#[test]
fn a_graphs_launch_has_all_of_its_kernels() {
    let events = [
        action("forward", 0.0, 50.0),
        op("replay", 0.0, 20.0),
        call("cudaGraphLaunch", 5.0, 5.0, 9),
        work("kernel", "a", 12.0, 5.0, 9),
        work("kernel", "b", 18.0, 5.0, 9),
        work("kernel", "c", 24.0, 5.0, 9),
    ];
    let analysis = analysis(&events);
    let device = &analysis.devices[0];
    let [graph] = &device.graphs[..] else { panic!("{:?}", device.graphs) };
    assert_eq!((&*graph.call, graph.inside.as_deref()), ("cudaGraphLaunch", Some("replay")));
    assert_eq!((graph.launches, graph.kernels, graph.device_ns), (1, 3, 15_000));
    let row = analysis.names.iter().find(|row| row.name == "replay").expect("it ran");
    assert_eq!(row.device_ns, 15_000);
    assert_eq!((device.launches.calls, device.launches.launched), (1, 3));
}

#[test]
fn sequences_of_kernels_are_counted_by_their_outermost_op() {
    let mut events = Vec::new();
    for round in 0..3_u32 {
        let (ts, first) = (f64::from(round) * 100.0, round * 2 + 1);
        events.extend([
            slice(MAIN, "cpu_op", "aten::linear", ts, 30.0),
            op("aten::addmm", ts + 1.0, 20.0),
            call("cudaLaunchKernel", ts + 2.0, 5.0, first),
            call("cudaLaunchKernel", ts + 10.0, 5.0, first + 1),
            work("kernel", "gemm", ts + 40.0, 10.0, first),
            work("kernel", "bias", ts + 50.0, 5.0, first + 1),
        ]);
    }
    let analysis = analysis(&events);
    let [sequence] = &analysis.devices[0].sequences[..] else { panic!("{:?}", analysis.devices) };
    assert_eq!((&*sequence.op, sequence.count), ("aten::linear", 3));
    assert_eq!((sequence.kernels.join(","), sequence.device_ns), ("gemm,bias".to_owned(), 45_000));
    // The device time belongs to the innermost op.
    let row = |name: &str| analysis.names.iter().find(|row| row.name == name).expect("it ran");
    assert_eq!((row("aten::addmm").device_ns, row("aten::linear").device_ns), (45_000, 0));
}
