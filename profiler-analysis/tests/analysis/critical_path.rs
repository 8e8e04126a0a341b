//! Critical paths, worked out by hand.

use profiler_analysis::{Activity, Analysis, CriticalPath, PathKind};

use crate::made::{MAIN, OTHER, action, analysis, arrow, call, op, slice, with, work};

fn path(analysis: &Analysis) -> &CriticalPath {
    let [path] = &analysis.critical_paths[..] else { panic!("{:?}", analysis.critical_paths) };
    path
}

/// Kinds, names and lengths in microseconds, from the beginning on.
fn segments(path: &CriticalPath) -> Vec<(PathKind, &str, i64)> {
    let mut now = 0;
    for segment in &path.segments {
        assert_eq!(segment.start_ns, now, "no hole: {segment:?}");
        now += segment.duration_ns;
    }
    assert_eq!(now, path.length_ns);
    let segment = |it: &profiler_analysis::PathSegment| it.duration_ns / 1000;
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
        // It was launched before: the queue was not empty.
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

/// What else happens at the same time, as a loader's thread does, keeps nobody waiting.
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
    let trace = crate::made::trace(&[step(1, 0.0, 10.0), step(2, 10.0, 30.0), step(3, 40.0, 20.0)]);
    let told = |analysis: &Analysis| {
        let paths = analysis.critical_paths.iter();
        paths.filter(|path| !path.segments.is_empty()).map(|path| path.step).collect::<Vec<_>>()
    };
    // That in the middle, by its length.
    assert_eq!(told(&Analysis::of(&trace)), [Some(3)]);
    assert_eq!(told(&Analysis::with_path_of(&trace, Some(2))), [Some(2)]);
    let lengths: Vec<_> =
        Analysis::of(&trace).critical_paths.iter().map(|path| path.length_ns).collect();
    assert_eq!(lengths, [10_000, 30_000, 20_000]);
}
