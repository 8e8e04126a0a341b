//! Handmade traces with known results. Times are in microseconds.

use mlprof_analysis::rollups::Rollups;
use mlprof_analysis::{Activity, Analysis, PathKind, kineto};

/// Analyses a file in `tests/cases`.
fn case(name: &str) -> Analysis {
    let path = format!("{}/tests/cases/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).expect("a case");
    Analysis::of(&kineto::read(file).expect("a trace"))
}

/// Checks a trace with two GEMMs and two all-reduces of one asynchronous step of 1,000 µs. The
/// kernels run until 9,900 µs.
#[test]
fn all_device_tables_are_about_the_steps() {
    let analysis = case("overlap-beyond-window");
    let device = &analysis.devices[0];
    let times = &device.times;
    assert_eq!((times.window_ns, times.compute_ns), (1_000_000, 800_000));
    assert_eq!(times.exposed_communication_ns, 100_000);
    assert_eq!(times.communication_sum_ns, 100_000);
    let [overlap] = &device.overlap[..] else { panic!("{:?}", device.overlap) };
    assert_eq!((overlap.total_ns, overlap.hidden_ns), (100_000, 0));
    let spans: Vec<_> = device.streams.iter().map(|it| (it.stream, it.span_ns)).collect();
    assert_eq!(spans, [(7, 800_000), (20, 100_000)]);
    assert!(device.queues.iter().all(|queue| queue.span_ns <= 1_000_000));
    assert_eq!((times.outside_ns, times.after_last_step_ns), (8_900_000, 8_900_000));
    let text = analysis.text(10);
    assert!(text.contains("worked another 8.90 ms"), "{text}");
}

/// Returns the parts of the critical path: kind, name and duration in microseconds, longest first.
fn path(analysis: &Analysis) -> Vec<(PathKind, &str, i64)> {
    let [path] = &analysis.critical_paths[..] else { panic!("{:?}", analysis.critical_paths) };
    let parts = path.parts.iter();
    parts.map(|it| (it.kind, it.name.as_deref().unwrap_or("-"), it.duration_ns / 1000)).collect()
}

const NOTHING: PathKind = PathKind::Host(Activity::Nothing);
const RUNTIME: PathKind = PathKind::Host(Activity::Runtime);
const OP: PathKind = PathKind::Host(Activity::Op);

/// Checks a call that launches a graph of ten kernels, which end 10 ms after the thread does.
#[test]
fn a_path_begins_at_the_device_that_outlives_the_thread() {
    let analysis = case("device-outlives-host");
    let path = path(&analysis);
    let kernels = path.iter().filter(|(kind, ..)| *kind == PathKind::Compute);
    assert_eq!(kernels.map(|(.., time)| time).sum::<i64>(), 9_900);
    let rest: Vec<_> = path.iter().filter(|(kind, ..)| *kind != PathKind::Compute).collect();
    let between: i64 =
        rest.iter().filter(|it| it.0 == PathKind::BetweenKernels).map(|it| it.2).sum();
    assert_eq!(between, 90);
    assert!(rest.contains(&&(PathKind::LaunchDelay, "k0", 140)), "{rest:?}");
    assert!(rest.contains(&&(RUNTIME, "hipGraphLaunch", 50)), "{rest:?}");
    assert!(rest.iter().all(|(kind, ..)| *kind != NOTHING), "{rest:?}");
}

/// Checks that the launching thread is the main thread, although a Python frame of a sleeping
/// thread is longer than all of its ops.
#[test]
fn the_thread_that_launches_is_the_main_thread_and_not_one_that_sleeps() {
    let analysis = case("sleeping-thread");
    assert_eq!(analysis.steps[0].thread, "thread 1");
    assert!(path(&analysis).contains(&(OP, "aten::mm", 8_975)), "{:?}", path(&analysis));
}

#[test]
fn backward_is_on_the_path_whatever_frame_waits_for_it() {
    for name in ["backward-with-stacks", "backward-without-stacks"] {
        let analysis = case(name);
        let path = path(&analysis);
        assert!(path.contains(&(OP, "aten::mm_bwd", 680)), "{name}: {path:?}");
    }
    let with_stacks = case("backward-with-stacks");
    let python = path(&with_stacks).into_iter();
    let python = python.filter(|(kind, ..)| *kind == PathKind::Host(Activity::Python));
    assert_eq!(python.map(|(.., time)| time).sum::<i64>(), 100);
}

/// Checks that kernels that end before their launch call returns do not delay the call. By the
/// clocks, one of the kernels begins 6 µs before its call.
#[test]
fn launches_do_not_wait_for_their_kernels() {
    let analysis = case("launch-gaps");
    let path = path(&analysis);
    let of = |kind: PathKind| {
        path.iter().filter(|part| part.0 == kind).map(|(.., time)| time).sum::<i64>()
    };
    let host = (of(RUNTIME), of(NOTHING), of(PathKind::Host(Activity::WaitingForDevice)));
    assert_eq!(host, (3_384, 2_586, 30));
    assert_eq!(path.iter().map(|(.., time)| time).sum::<i64>(), 6_000);
}

/// Checks a trace without correlation ids, in which a long gap of the device has no known cause.
#[test]
fn gaps_before_kernels_of_unknown_launches_are_unexplained() {
    let analysis = case("no-correlation");
    let expected = [
        (PathKind::Unexplained, "K3", 435),
        (PathKind::Compute, "K1", 300),
        (PathKind::Compute, "K2", 300),
        (NOTHING, "-", 210),
        (PathKind::Compute, "K3", 150),
        (RUNTIME, "cudaLaunchKernel", 60),
        (PathKind::ReturnFromWaiting, "cudaDeviceSynchronize", 30),
        (PathKind::BetweenKernels, "K2", 15),
    ];
    assert_eq!(path(&analysis), expected);
    let stream = &analysis.devices[0].streams[0];
    assert_eq!((stream.other_ns, stream.between_kernels_ns), (435_000, 15_000));
}

/// Checks two devices that both have a stream 7. The stream of the other device ends later.
#[test]
fn a_stream_is_waited_for_on_its_device() {
    let analysis = case("two-devices");
    let expected = [
        (PathKind::Compute, "on GPU 0", 1_290),
        (NOTHING, "-", 330),
        (PathKind::LaunchDelay, "on GPU 0", 120),
        (RUNTIME, "cudaLaunchKernel", 30),
        (PathKind::ReturnFromWaiting, "cudaStreamSynchronize", 30),
    ];
    assert_eq!(path(&analysis), expected);
}

/// Checks a trace with the steps 5 and 6. Between them is an op with a kernel that runs into
/// step 6.
#[test]
fn work_outside_of_steps_is_in_no_table() {
    let analysis = case("outside-of-steps");
    let device = &analysis.devices[0];
    let times = &device.times;
    assert_eq!((times.window_ns, times.compute_ns), (900_000, 360_000));
    assert_eq!((times.outside_ns, times.after_last_step_ns), (240_000, 30_000));
    assert_eq!((device.launches.launched, device.streams[0].span_ns), (1, 735_000));
}

/// Returns the parts of a step: action, activity and duration in microseconds.
fn parts(analysis: &Analysis, step: usize) -> Vec<(Option<&str>, Activity, i64)> {
    let parts = analysis.steps[step].parts.iter();
    let mut parts: Vec<_> =
        parts.map(|it| (it.action.as_deref(), it.activity, it.duration_ns / 1000)).collect();
    parts.sort_unstable();
    parts
}

/// Checks an op of 150 µs that crosses the border between two steps.
#[test]
fn an_op_over_the_border_of_steps_is_in_both() {
    let analysis = case("crossing-steps");
    assert_eq!(parts(&analysis, 0), [(None, Activity::Op, 60), (None, Activity::Nothing, 240)]);
    let second =
        [(None, Activity::Op, 60), (None, Activity::Runtime, 30), (None, Activity::Nothing, 210)];
    assert_eq!(parts(&analysis, 1), second);
    let op = analysis.names.iter().find(|row| row.name == "aten::conv2d").expect("it ran");
    assert_eq!((op.self_ns, op.total_ns, op.device_ns), (120_000, 150_000, 240_000));
    assert_eq!(analysis.crossing_ns, 120_000);
}

/// Checks crossing actions: `augment` begins within `prefetch` and ends after it. One op is in
/// both, and one op is only in `augment`.
#[test]
fn ops_in_actions_that_cross_are_in_the_innermost_one() {
    let analysis = case("asynchronous");
    let data = "[_TrainingEpochLoop].train_dataloader_next";
    let expected = [
        (None, Activity::Nothing, 1_200),
        (Some(data), Activity::WaitingForData, 300),
        (Some("augment"), Activity::Op, 480),
        (Some("augment"), Activity::Annotation, 420),
        (Some("prefetch"), Activity::Annotation, 600),
    ];
    assert_eq!(parts(&analysis, 0), expected);
    assert_eq!(analysis.crossing_ns, 420_000);
}

/// Checks that a recursive action has the same time in the sums per step as in the table of names.
#[test]
fn recursion_is_counted_once() {
    let path = format!("{}/tests/cases/recursion.json", env!("CARGO_MANIFEST_DIR"));
    let trace = kineto::read(std::fs::File::open(path).expect("a case")).expect("a trace");
    let (analysis, rollups) = (Analysis::of(&trace), Rollups::of(&trace));
    for (name, calls, microseconds) in [("fit_tree", 4, 300), ("a", 2, 210), ("b", 1, 150)] {
        let row = analysis.names.iter().find(|row| row.name == name).expect("it ran");
        assert_eq!((row.calls, row.total_ns), (calls, microseconds * 1000), "{name}");
        let sum = rollups.ops.iter().find(|sum| rollups.name(sum.name) == name).expect("it ran");
        assert_eq!((sum.count, sum.total), (calls as i64, microseconds * 1000), "{name}");
    }
}
