//! Tests of communication: recognition of its kernels, waits for it, and its bandwidth.

use mlprof_analysis::ranks::{RankFacts, Ranks};
use mlprof_analysis::{CollectiveTimes, PathKind, kineto};

use crate::synthetic::{MAIN, action, analysis, call, slice, with, work};

/// Communication kernels of libraries other than NCCL. Each runs for 50 µs in the test.
const KERNELS: [&str; 10] = [
    "void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>",
    "void vllm::cross_device_reduce_1stage<__hip_bfloat16, 8>",
    "void two_shot_all_reduce_kernel_inplace<c10::BFloat16>",
    "void deep_ep::intranode::dispatch<8, 768>",
    "void flashinfer::trtllm_allreduce_fusion::allreduce_fusion_kernel_oneshot_lamport",
    "ncclSymDevKernel_AllReduce_RSxLD_AGxST",
    "nvshmemi_transfer_rma",
    "oneccl_allreduce",
    "void mscclpp::allreduce",
    "triton_dist_allgather",
];

#[test]
fn communication_of_every_library_is_communication() {
    let mut events = vec![action("ProfilerStep#1", 0.0, 1_200.0)];
    for (number, name) in (0..).zip(KERNELS) {
        let ts = f64::from(number) * 100.0;
        events.push(call("cudaLaunchKernel", ts + 10.0, 5.0, number + 1));
        events.push(work("kernel", name, ts + 20.0, 50.0, number + 1));
    }
    events.push(work("kernel", "void vllm::moe::combine<half>", 1_100.0, 7.0, 11));
    let analysis = analysis(&events);
    let times = &analysis.devices[0].times;
    assert_eq!((times.communication_sum_ns, times.compute_sum_ns), (500_000, 7_000));
    assert_eq!(times.exposed_communication_ns, 500_000);
}

/// Returns the events of a stream that computes for 1 ms, waits 9 ms for an all-reduce on another
/// stream, then copies and computes.
fn waits_for_communication(knows_launches: bool) -> Vec<String> {
    let correlated = |number: u32| if knows_launches { number } else { number + 1_000 };
    let on = |stream, category, name, time, number| {
        let args = format!(r#"{{"correlation":{},"bytes":1000}}"#, correlated(number));
        with((0, stream), category, name, time, &args)
    };
    vec![
        action("ProfilerStep#1", 0.0, 20_000.0),
        call("hipLaunchKernel", 100.0, 5.0, 1),
        call("hipStreamWaitEvent", 106.0, 2.0, 8),
        call("hipLaunchKernel", 110.0, 5.0, 2),
        call("hipStreamWaitEvent", 118.0, 2.0, 9),
        call("hipMemcpyAsync", 120.0, 5.0, 3),
        call("hipLaunchKernel", 130.0, 5.0, 4),
        on(0, "kernel", "conv", (1_000.0, 1_000.0), 1),
        on(4, "kernel", "ncclDevKernel_Generic", (2_000.0, 9_000.0), 2),
        on(0, "gpu_memcpy", "Memcpy DtoD (Device -> Device)", (11_016.0, 10.0), 3),
        on(0, "kernel", "conv", (11_030.0, 8_950.0), 4),
        call("hipDeviceSynchronize", 15_000.0, 4_990.0, 10),
    ]
}

#[test]
fn a_stream_that_waits_for_communication_says_so_whether_launches_are_known_or_not() {
    for knows_launches in [true, false] {
        let analysis = analysis(&waits_for_communication(knows_launches));
        let idle = analysis.devices[0].streams[0];
        // The wait includes the 16 µs until the stream noticed its end.
        assert_eq!(idle.waiting_for_communication_ns, 9_016_000, "{idle:?}");
        assert_eq!((idle.between_kernels_ns, idle.other_ns), (4_000, 0), "{idle:?}");
        assert_eq!((idle.waiting_for_compute_ns, idle.waiting_for_memory_ns), (0, 0));
        assert_eq!(idle.busy_ns, 9_960_000);
        let path = &analysis.critical_paths[0];
        let of = |kind| -> i64 {
            let parts = path.parts.iter().filter(|part| part.kind == kind);
            parts.map(|part| part.duration_ns).sum()
        };
        assert_eq!(of(PathKind::Communication), 9_000_000, "{path:#?}");
        assert_eq!(of(PathKind::Compute), 9_950_000, "{path:#?}");
    }
}

/// Checks that the causes of a wait are followed: the stream waited for a copy that the host
/// launched late.
#[test]
fn a_wait_for_work_that_was_launched_late_is_the_hosts() {
    let on = |stream, category, name, time, number| {
        let args = format!(r#"{{"correlation":{number},"bytes":1000}}"#);
        with((0, stream), category, name, time, &args)
    };
    let events = [
        call("cudaLaunchKernel", 0.0, 5.0, 1),
        call("cudaMemcpyAsync", 400.0, 5.0, 2),
        call("cudaStreamWaitEvent", 406.0, 2.0, 9),
        call("cudaLaunchKernel", 410.0, 5.0, 3),
        on(7, "kernel", "first", (10.0, 100.0), 1),
        on(8, "gpu_memcpy", "Memcpy HtoD", (420.0, 500.0), 2),
        on(7, "kernel", "second", (925.0, 100.0), 3),
    ];
    let analysis = analysis(&events);
    let idle = analysis.devices[0].streams[0];
    assert_eq!(idle.waiting_for_host_ns, 290_000, "{idle:?}");
    assert_eq!(idle.launch_delay_ns, 20_000, "{idle:?}");
    assert_eq!(idle.waiting_for_memory_ns, 505_000, "{idle:?}");
    assert_eq!((idle.between_kernels_ns, idle.other_ns), (0, 0), "{idle:?}");
    let sum = idle.waiting_for_host_ns + idle.launch_delay_ns + idle.waiting_for_memory_ns;
    assert_eq!(sum + idle.between_kernels_ns + idle.busy_ns, idle.span_ns);
}

/// Checks that kernels of another stream are not a cause if they only happen to end before a kernel
/// with an unknown launch.
#[test]
fn work_that_was_not_waited_for_is_no_cause() {
    let on = |stream, name, ts, dur| slice((0, stream), "kernel", name, ts, dur);
    let events =
        [on(7, "first", 0.0, 100.0), on(8, "other", 0.0, 990.0), on(7, "second", 1_000.0, 100.0)];
    let idle = analysis(&events).devices[0].streams[0];
    assert_eq!((idle.other_ns, idle.waiting_for_compute_ns), (900_000, 0), "{idle:?}");
}

/// Returns the arguments of a collective in PyTorch's format.
fn message(name: &str, dtype: &str, elements: (u64, u64)) -> String {
    format!(
        r#""Collective name":"{name}","dtype":"{dtype}","In msg nelems":{},"Out msg nelems":{},"Group size":8,"Process Group Name":"0","Process Group Ranks":"[0, 1, 2, 3, 4, 5, 6, 7]""#,
        elements.0, elements.1
    )
}

fn nccl(ts: f64, dur: f64, more: &str) -> String {
    with((0, 4), "kernel", "ncclDevKernel_Generic", (ts, dur), &format!("{{{more}}}"))
}

fn close(value: Option<f64>, expected: f64) {
    assert!(value.is_some_and(|value| (value / expected - 1.0).abs() < 1e-9), "{value:?}");
}

/// Checks all-reduces of 17.6 MB that took 8.66 to 9.21 ms on eight GPUs, as in a trace of a
/// ResNet.
#[test]
fn the_bandwidth_of_collectives_is_that_of_nccls_tests() {
    let large = message("allreduce", "Float", (4_400_000, 4_400_000));
    let gathered = message("_allgather_base", "BFloat16", (25_136, 201_088));
    let events = [
        nccl(0.0, 9_210.0, &large),
        nccl(10_000.0, 8_660.0, &large),
        nccl(20_000.0, 8_900.0, &large),
        nccl(30_000.0, 20.0, &gathered),
        // The message of this collective is unknown.
        nccl(31_000.0, 20.0, ""),
    ];
    let analysis = analysis(&events);
    let [reduced, gathered] = &analysis.devices[0].collectives[..] else {
        panic!("{:?}", analysis.devices[0].collectives)
    };
    assert_eq!(
        (&*reduced.collective, &*reduced.dtype, &*reduced.group),
        ("all_reduce", "Float", "0")
    );
    assert_eq!((reduced.group_size, reduced.message_bytes, reduced.count), (8, 17_600_000, 3));
    let times = (reduced.shortest_ns, reduced.median_ns, reduced.longest_ns);
    assert_eq!(times, (8_660_000, 8_900_000, 9_210_000));
    assert_eq!(reduced.total_ns, 26_770_000);
    close(Some(reduced.algorithm_gb_per_s), 17.6 / 8.9);
    close(reduced.bus_gb_per_s, 17.6 / 8.9 * 1.75);
    close(reduced.most_bus_gb_per_s, 17.6 / 8.66 * 1.75);
    assert_eq!((gathered.message_bytes, gathered.count), (402_176, 1));
    close(gathered.bus_gb_per_s, 402_176.0 / 20_000.0 * 7.0 / 8.0);
    let text = analysis.text(10);
    assert!(text.contains("Device 0: collectives") && text.contains("3.46"), "{text}");
    assert!(text.contains("include waiting for the last rank"), "{text}");
}

/// Checks that kernels without a message have the message of the op around their launch. Two
/// kernels of one op are one collective.
#[test]
fn messages_are_found_by_the_op_that_launched_the_kernels() {
    let args = format!("{{{}}}", message("reduce_scatter", "Float", (8_000, 1_000)));
    let events = [
        with(MAIN, "cpu_op", "record_param_comms", (0.0, 50.0), &args),
        call("cudaLaunchKernelExC", 10.0, 5.0, 1),
        call("cudaLaunchKernelExC", 20.0, 5.0, 2),
        work("kernel", "ncclDevKernel_ReduceScatter", 30.0, 10.0, 1),
        work("kernel", "ncclDevKernel_ReduceScatter", 45.0, 15.0, 2),
        // A copy launched by the op is not a collective.
        call("cudaLaunchKernel", 30.0, 5.0, 3),
        work("kernel", "copy", 60.0, 10.0, 3),
    ];
    let analysis = analysis(&events);
    let [one] = &analysis.devices[0].collectives[..] else { panic!("{:?}", analysis.devices) };
    assert_eq!((&*one.collective, one.message_bytes, one.count), ("reduce_scatter", 32_000, 1));
    assert_eq!(one.total_ns, 30_000);
}

/// Checks that the duration of the last rank counts, because a rank that joins early waits in the
/// collective.
#[test]
fn several_ranks_leave_out_the_waiting() {
    let of_rank = |rank: u32, durations: [f64; 2]| {
        let args = message("allreduce", "Float", (1_000_000, 1_000_000));
        let mut events = vec![slice(MAIN, "user_annotation", "ProfilerStep#1", 0.0, 20_000.0)];
        let start = |place: f64, duration: f64| place + 5_000.0 - duration;
        events.push(nccl(start(0.0, durations[0]), durations[0], &args));
        events.push(nccl(start(6_000.0, durations[1]), durations[1], &args));
        let text = format!(
            r#"{{"distributedInfo":{{"rank":{rank},"world_size":2}},"traceEvents":[{}]}}"#,
            events.join(",")
        );
        RankFacts::of(format!("{rank}"), &kineto::read(text.as_bytes()).expect("a trace"))
    };
    let facts = [of_rank(0, [4_000.0, 1_000.0]), of_rank(1, [2_000.0, 3_000.0])];
    let ranks = Ranks::of(&facts).expect("two ranks");
    let [one] = &ranks.collectives[..] else { panic!("{:?}", ranks.collectives) };
    assert_eq!((one.count, one.shortest_ns, one.longest_ns), (2, 1_000_000, 2_000_000));
    assert_eq!((one.median_ns, one.message_bytes), (1_500_000, 4_000_000));
    let text = ranks.text();
    assert!(text.contains("Collectives, timed on the last rank to arrive"), "{text}");
    // A single rank's trace does not show how long the rank waited.
    let alone = Ranks::of(&facts[..1]).expect("a rank");
    assert_eq!(alone.collectives, Vec::<CollectiveTimes>::new());
}

#[cfg(feature = "parquet")]
#[test]
fn messages_and_kinds_of_work_go_through_tables() {
    use mlprof_analysis::{Analysis, columns};

    let mut events = waits_for_communication(true);
    events.push(nccl(12_000.0, 20.0, &message("allreduce", "Half", (10, 10))));
    let trace = crate::synthetic::trace(&events);
    let folder = tempfile::tempdir().expect("a folder");
    let files = columns::write(&trace, folder.path()).expect("tables");
    let again = columns::read(&files).expect("a trace");
    let (before, after) = (Analysis::of(&trace), Analysis::of(&again));
    assert_eq!(before.devices[0].collectives.len(), 1);
    assert_eq!(before.devices, after.devices);
}
