//! Critical paths with results worked out by hand.

use mlprof_analysis::{Activity, Analysis, CriticalPath, PathKind};

use crate::synthetic::{MAIN, OTHER, action, analysis, arrow, call, op, slice, with, work};

fn path(analysis: &Analysis) -> &CriticalPath {
    let [path] = &analysis.critical_paths[..] else { panic!("{:?}", analysis.critical_paths) };
    path
}

/// Returns the kinds, names and durations in microseconds of the segments in order.
fn segments(path: &CriticalPath) -> Vec<(PathKind, &str, i64)> {
    let mut now = 0;
    for segment in &path.segments {
        assert_eq!(segment.start_ns, now, "no hole: {segment:?}");
        now += segment.duration_ns;
    }
    assert_eq!(now, path.length_ns);
    let segment = |it: &mlprof_analysis::PathSegment| it.duration_ns / 1000;
    path.segments
        .iter()
        .map(|it| (it.kind, it.name.as_deref().unwrap_or("-"), segment(it)))
        .collect()
}

#[test]
fn it_goes_through_what_a_call_waited_for() {
    let analysis = analysis(&crate::devices::events());
    let nothing = PathKind::Host(Activity::Nothing);
    let runtime = PathKind::Host(Activity::Runtime);
    let expected = [
        (nothing, "-", 10),
        (runtime, "cudaLaunchKernel", 5),
        (PathKind::LaunchDelay, "first", 5),
        (PathKind::Compute, "first", 20),
        // The second kernel was launched earlier, so the queue was not empty.
        (PathKind::Compute, "second", 20),
        (PathKind::ReturnFromWaiting, "cudaDeviceSynchronize", 5),
        (nothing, "-", 5),
        (runtime, "cudaMemcpyAsync", 5),
        (nothing, "-", 25),
    ];
    assert_eq!(segments(path(&analysis)), expected);
    assert_eq!(path(&analysis).length_ns, 100_000);
    assert_eq!(path(&analysis).step, Some(1));
}

#[test]
fn a_stream_that_is_waited_for_is_not_any_other() {
    let sync = r#"{"correlation":5,"stream":7}"#;
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        call("cudaLaunchKernel", 0.0, 5.0, 1),
        with(MAIN, "cuda_runtime", "cudaStreamSynchronize", (10.0, 80.0), r#"{"correlation":5}"#),
        work("kernel", "waited for", 10.0, 50.0, 1),
        slice((0, 8), "kernel", "of another stream", 20.0, 65.0),
        with((0, 7), "cuda_sync", "Stream Sync", (10.0, 51.0), sync),
    ];
    let analysis = analysis(&events);
    let expected = [
        (PathKind::Host(Activity::Runtime), "cudaLaunchKernel", 5),
        (PathKind::LaunchDelay, "waited for", 5),
        (PathKind::Compute, "waited for", 50),
        (PathKind::ReturnFromWaiting, "cudaStreamSynchronize", 30),
        (PathKind::Host(Activity::Nothing), "-", 10),
    ];
    assert_eq!(segments(path(&analysis)), expected);
}

/// Checks that the path goes from a launch to the device if the call had to wait for a free queue
/// entry.
#[test]
fn a_launch_that_waits_for_a_place_in_the_queue_leads_to_the_device() {
    let events = |before: u32| {
        let mut events = vec![action("ProfilerStep#1", 0.0, 2010.0)];
        for number in 0..before {
            let at = f64::from(number);
            events.push(call("cudaLaunchKernel", at, 0.5, number + 1));
            events.push(work("kernel", "gemm", 5.0 + at * 1000.0, 1000.0, number + 1));
        }
        events.push(call("cudaLaunchKernel", 1010.0, 997.0, before + 1));
        let last = 5.0 + f64::from(before) * 1000.0;
        events.push(work("kernel", "gemm", last, 1000.0, before + 1));
        events
    };
    let nothing = PathKind::Host(Activity::Nothing);
    let runtime = PathKind::Host(Activity::Runtime);
    let full = analysis(&events(1010));
    let through_the_device = [
        (runtime, "cudaLaunchKernel", 0),
        (PathKind::LaunchDelay, "gemm", 4),
        (PathKind::Compute, "gemm", 2000),
        (PathKind::ReturnFromWaiting, "cudaLaunchKernel", 2),
        (nothing, "-", 3),
    ];
    assert_eq!(segments(path(&full)), through_the_device);
    // If the queue has free entries, the call is long for another reason.
    let analysis = analysis(&events(900));
    let last = segments(path(&analysis)).into_iter().rev().nth(1);
    assert_eq!(last, Some((runtime, "cudaLaunchKernel", 997)));
}

/// Returns the events of two streams. Work on one of them waits for an event of the other one.
fn two_streams() -> [String; 14] {
    let waits =
        r#"{"correlation":4,"stream":8,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":3}"#;
    let of_other = |name: &str, (ts, dur): (f64, f64), correlation: u32| {
        with((0, 8), "kernel", name, (ts, dur), &format!(r#"{{"correlation":{correlation}}}"#))
    };
    [
        action("ProfilerStep#1", 0.0, 100.0),
        call("cudaLaunchKernel", 0.0, 5.0, 1),
        call("cudaLaunchKernel", 5.0, 3.0, 2),
        call("cudaEventRecord", 8.0, 1.0, 3),
        call("cudaStreamWaitEvent", 9.0, 1.0, 4),
        call("cudaLaunchKernel", 10.0, 5.0, 5),
        call("cudaLaunchKernel", 15.0, 5.0, 6),
        call("cudaDeviceSynchronize", 20.0, 75.0, 0),
        work("kernel", "first", 8.0, 30.0, 1),
        work("kernel", "copied", 40.0, 10.0, 2),
        // This kernel was launched after the event, so the other stream did not wait for it.
        work("kernel", "later", 50.0, 8.0, 6),
        of_other("before", (2.0, 4.0), 0),
        with((0, 8), "cuda_sync", "Stream Wait Event", (9.5, 0.5), waits),
        of_other("waiting", (52.0, 40.0), 5),
    ]
}

/// Expected critical path if one stream waited for the other.
const OVER_BOTH: [(PathKind, &str, i64); 9] = [
    (PathKind::Host(Activity::Runtime), "cudaLaunchKernel", 5),
    (PathKind::LaunchDelay, "first", 3),
    (PathKind::Compute, "first", 30),
    (PathKind::BetweenKernels, "copied", 2),
    (PathKind::Compute, "copied", 10),
    (PathKind::BetweenKernels, "waiting", 2),
    (PathKind::Compute, "waiting", 40),
    (PathKind::ReturnFromWaiting, "cudaDeviceSynchronize", 3),
    (PathKind::Host(Activity::Nothing), "-", 5),
];

fn waited_for_its_launch(events: &[String]) -> bool {
    let analysis = analysis(events);
    let segments = segments(path(&analysis));
    segments.iter().any(|(kind, name, _)| (*kind, *name) == (PathKind::LaunchDelay, "waiting"))
}

#[test]
fn it_goes_over_to_the_stream_that_a_stream_waited_for() {
    let events = two_streams();
    assert_eq!(segments(path(&analysis(&events))), OVER_BOTH);
    // If the event was over before the kernel was launched, the kernel did not wait for it.
    let late = events
        .map(|event| event.replace(r#""ts":10.000,"dur":5.000"#, r#""ts":50.500,"dur":1.250"#));
    assert!(waited_for_its_launch(&late));
}

/// Checks traces that contain only the calls that make streams wait, as most traces do.
#[test]
fn a_stream_that_was_told_to_wait_begins_when_what_it_waited_for_has_ended() {
    let mut events = two_streams().to_vec();
    events.retain(|event| !event.contains("cuda_sync"));
    assert_eq!(segments(path(&analysis(&events))), OVER_BOTH);
    let later = events.clone().into_iter();
    let later = later
        .map(|event| event.replace(r#""ts":52.000,"dur":40.000"#, r#""ts":90.000,"dur":2.000"#));
    assert!(waited_for_its_launch(&later.collect::<Vec<_>>()), "it began long after");
    events.retain(|event| !event.contains("cudaStreamWaitEvent"));
    assert!(waited_for_its_launch(&events), "nobody told it to wait");
}

/// Checks that a wait for an event excludes work launched after the event, even if this work ends
/// before the call returns.
#[test]
fn an_event_that_is_waited_for_is_not_all_that_a_stream_does() {
    let waits = |record: u32| {
        let args = format!(
            r#"{{"correlation":4,"stream":-1,"wait_on_stream":7,"wait_on_cuda_event_record_corr_id":{record}}}"#
        );
        with((0, u32::MAX), "cuda_sync", "Event Sync", (20.0, 40.0), &args)
    };
    let events = |record: u32| {
        [
            action("ProfilerStep#1", 0.0, 100.0),
            call("cudaLaunchKernel", 0.0, 5.0, 1),
            call("cudaEventRecord", 5.0, 1.0, 2),
            call("cudaLaunchKernel", 6.0, 4.0, 3),
            call("cudaEventSynchronize", 20.0, 40.0, 4),
            work("kernel", "waited for", 10.0, 40.0, 1),
            work("kernel", "after it", 50.0, 5.0, 3),
            slice((0, 8), "kernel", "of another stream", 20.0, 38.0),
            waits(record),
        ]
    };
    let names = |record: u32| -> Vec<String> {
        let analysis = analysis(&events(record));
        let segments = segments(path(&analysis)).into_iter();
        let kernels = segments.filter(|(kind, ..)| *kind == PathKind::Compute);
        kernels.map(|(_, name, _)| name.to_owned()).collect()
    };
    assert_eq!(names(2), ["waited for"]);
    // The event was recorded before the trace, so only its stream is known.
    assert_eq!(names(u32::MAX), ["waited for", "after it"]);
}

#[test]
fn it_goes_through_backward_ops_of_another_thread() {
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        op("aten::mm", 5.0, 15.0),
        action("backward", 30.0, 60.0),
        slice(OTHER, "cpu_op", "MmBackward0", 40.0, 40.0),
        arrow(1, (MAIN, 5.0), (OTHER, 40.0)),
    ];
    let analysis = analysis(&events);
    let (op, around) = (PathKind::Host(Activity::Op), PathKind::Host(Activity::Annotation));
    let nothing = PathKind::Host(Activity::Nothing);
    let expected = [
        (nothing, "-", 5),
        (op, "aten::mm", 15),
        (nothing, "-", 10),
        (around, "backward", 10),
        (op, "MmBackward0", 40),
        (around, "backward", 10),
        (nothing, "-", 10),
    ];
    assert_eq!(segments(path(&analysis)), expected);
}

/// Checks that unrelated work at the same time, such as that of a loader thread, is not on the
/// path.
#[test]
fn it_stays_on_its_thread_where_nothing_leads_to_another() {
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        action("train_dataloader_next", 0.0, 60.0),
        slice(OTHER, "cpu_op", "load", 0.0, 50.0),
    ];
    let analysis = analysis(&events);
    let data = PathKind::Host(Activity::WaitingForData);
    let nothing = PathKind::Host(Activity::Nothing);
    assert_eq!(
        segments(path(&analysis)),
        [(data, "train_dataloader_next", 60), (nothing, "-", 40)]
    );
}

#[test]
fn only_one_path_is_told_stretch_by_stretch() {
    let step = |number: u32, ts: f64, dur: f64| action(&format!("ProfilerStep#{number}"), ts, dur);
    let trace =
        crate::synthetic::trace(&[step(1, 0.0, 10.0), step(2, 10.0, 30.0), step(3, 40.0, 20.0)]);
    let told = |analysis: &Analysis| {
        let paths = analysis.critical_paths.iter();
        paths.filter(|path| !path.segments.is_empty()).map(|path| path.step).collect::<Vec<_>>()
    };
    // The default is the step with the median duration.
    assert_eq!(told(&Analysis::of(&trace)), [Some(3)]);
    assert_eq!(told(&Analysis::with_path_of(&trace, Some(2))), [Some(2)]);
    let lengths: Vec<_> =
        Analysis::of(&trace).critical_paths.iter().map(|path| path.length_ns).collect();
    assert_eq!(lengths, [10_000, 30_000, 20_000]);
}

/// Analyses `count` launches of `call_us` µs each, 5 µs apart, of kernels of 20 µs.
fn launches(call_name: &str, (count, call_us): (u32, f64)) -> Analysis {
    let mut events = vec![action("ProfilerStep#1", 0.0, f64::from(count) * 5.0 + 20.0)];
    for number in 0..count {
        let at = f64::from(number);
        events.push(call(call_name, 10.0 + at * 5.0, call_us, number + 1));
        events.push(work("kernel", "k", 102.0 + at * 20.0, 20.0, number + 1));
    }
    analysis(&events)
}

fn is_all_of_the_host(analysis: &Analysis) -> bool {
    path(analysis).parts.iter().all(|part| matches!(part.kind, PathKind::Host(_)))
}

/// Checks that HIP's queue, which grows, is never full. The same holds for a queue that held more
/// entries than CUDA's queue can.
#[test]
fn launches_that_are_short_found_a_place() {
    for count in [900, 1_010, 2_000] {
        assert!(is_all_of_the_host(&launches("hipLaunchKernel", (count, 3.0))), "{count}");
        assert!(is_all_of_the_host(&launches("cudaLaunchKernel", (count, 3.0))), "{count}");
    }
}

/// Checks that the kernels of a graph take a single queue entry.
#[test]
fn a_graph_of_many_kernels_does_not_fill_a_queue() {
    let mut events = vec![
        action("ProfilerStep#1", 0.0, 3_000.0),
        call("cudaGraphLaunch", 0.0, 50.0, 1),
        call("cudaLaunchKernel", 100.0, 2_000.0, 2),
        work("kernel", "last", 2_200.0, 10.0, 2),
    ];
    events.extend((0..1_010).map(|at| work("kernel", "k", 110.0 + f64::from(at), 1.0, 1)));
    assert!(is_all_of_the_host(&analysis(&events)));
}

#[test]
fn copies_that_return_when_they_are_over_lead_to_the_device() {
    let events = |call_name: &str, copy: &str| {
        analysis(&[
            action("ProfilerStep#1", 0.0, 100.0),
            call(call_name, 10.0, 50.0, 1),
            work("gpu_memcpy", copy, 20.0, 30.0, 1),
        ])
    };
    for (call_name, copy, waits) in [
        ("cudaMemcpy", "Memcpy DtoH (Device -> Pinned)", true),
        ("cudaMemcpy2D", "Memcpy DtoH (Device -> Pinned)", true),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pageable)", true),
        ("cudaMemcpyAsync", "Memcpy DtoH (Device -> Pinned)", false),
        ("cudaMemsetAsync", "Memset (Device)", false),
    ] {
        let analysis = events(call_name, copy);
        assert_eq!(is_all_of_the_host(&analysis), !waits, "{call_name}, {copy}");
    }
}

/// Checks the fallback without a record of the wait: a thread waits for the device that it used
/// last.
#[test]
fn a_thread_waits_for_the_device_that_it_used_last() {
    let on = |device: u32, (ts, dur): (f64, f64), correlation: u32| {
        let args = format!(r#"{{"correlation":{correlation}}}"#);
        with((device, 7), "kernel", &format!("on {device}"), (ts, dur), &args)
    };
    let events = [
        action("ProfilerStep#1", 0.0, 100.0),
        call("cudaLaunchKernel", 0.0, 5.0, 1),
        call("cudaLaunchKernel", 5.0, 5.0, 2),
        call("cudaDeviceSynchronize", 20.0, 70.0, 3),
        on(1, (10.0, 78.0), 1),
        on(0, (12.0, 60.0), 2),
    ];
    let analysis = analysis(&events);
    let kernels = path(&analysis).parts.iter().filter(|part| part.kind == PathKind::Compute);
    assert_eq!(kernels.map(|part| part.name.as_deref()).collect::<Vec<_>>(), [Some("on 0")]);
}
