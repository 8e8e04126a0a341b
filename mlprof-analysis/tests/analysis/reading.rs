//! Tests of reading complete and damaged files.

use std::io::Read;

use mlprof_analysis::Error;
use mlprof_analysis::kineto::read;
use mlprof_analysis::trace::{Category, TrackKind};

use crate::synthetic::{MAIN, STREAM, action, arrow, call, json, op, slice, work};

fn many(count: u32) -> Vec<String> {
    (0..count).map(|number| op(&format!("op {}", number % 10), f64::from(number), 0.5)).collect()
}

/// Reader that returns a few bytes per call.
struct Drop<'a>(&'a [u8], usize);

impl Read for Drop<'_> {
    fn read(&mut self, bytes: &mut [u8]) -> std::io::Result<usize> {
        let count = self.1.min(bytes.len());
        self.0.read(&mut bytes[..count])
    }
}

#[test]
fn a_text_is_the_same_in_any_pieces() {
    let json = json(&many(20_000));
    let whole = read(json.as_bytes()).expect("a trace");
    assert_eq!(whole.slices.len(), 20_000);
    for piece in [1 << 10, 4099] {
        let pieces = read(Drop(json.as_bytes(), piece)).expect("a trace");
        assert_eq!(pieces.slices, whole.slices, "{piece}");
    }
}

#[test]
fn a_truncated_trace_is_read_with_a_note() {
    let whole = json(&many(100));
    let end = whole.find("\"ts\":50").expect("the event");
    for (text, slices, reason) in [
        (&whole[..end], 50, "the file ends in the middle of an event"),
        (
            &whole[..whole.find(",\"traceName").expect("the footer") - 1],
            100,
            "the file ends in the middle of the events",
        ),
        (&whole[..whole.len() - 1], 100, "the file ends early"),
    ] {
        let trace = read(text.as_bytes()).expect("what comes before");
        assert_eq!(trace.slices.len(), slices, "{reason}");
        assert_eq!(trace.info.cut_short.as_deref(), Some(reason));
    }
    assert_eq!(read(whole.as_bytes()).expect("a trace").info.cut_short, None);
}

#[test]
fn a_time_that_is_no_json_costs_its_event() {
    let text = json(&many(10)).replace("\"ts\":5.000", "\"ts\":=5");
    let trace = read(text.as_bytes()).expect("a trace");
    assert_eq!((trace.slices.len(), trace.info.not_understood), (9, 1));
    assert_eq!(trace.info.cut_short, None);
}

#[test]
fn other_files_are_not_traces() {
    for text in
        ["", "{}", "[]", "12", "{\"profiler\":\"simple\"}", "{\"traceEvents\":12}", "\u{1f}\u{8b}"]
    {
        let error = read(text.as_bytes()).expect_err(text);
        assert!(matches!(error, Error::NoTrace(_) | Error::Empty), "{text}: {error}");
    }
    let error = read(b"{\"traceEvents\":[{\"ph\":\"X\",".as_slice()).expect_err("nothing in it");
    assert!(matches!(error, Error::Cut(_)), "{error}");
    let error = read(b"{\"traceEvents\":[]}".as_slice()).expect_err("nothing in it");
    assert!(matches!(error, Error::Empty), "{error}");
}

#[test]
fn an_error_of_the_file_is_no_end() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> std::io::Result<usize> {
            Err(std::io::Error::other("the disk is gone"))
        }
    }
    let text = json(&many(10));
    let half = &text.as_bytes()[..text.len() / 2];
    let trace = read(half.chain(Broken)).expect("what comes before");
    assert_eq!(trace.info.cut_short.as_deref(), Some("the disk is gone"));
    assert!(matches!(read(Broken), Err(Error::Io(_))));
}

#[test]
fn lists_of_events_and_odd_values_are_read() {
    let text = r#"[
        {"ph":"X","cat":"cpu_op","name":"a\u0001\"","pid":"7","tid":"main","ts":"1700000000123456.5","dur":2},
        {"ph":"X","name":"no time","pid":7,"tid":1},
        {"ph":"X","ts":1,"name":5},
        {"ph":"C","name":"memory","pid":7,"ts":1700000000123457,"args":{"used":5,"what":"x"}},
        {"ph":"X","name":"b","pid":7,"tid":1,"ts":1700000000123456.789,"dur":0.001,"args":null},"#;
    let trace = read(text.as_bytes()).expect("a trace");
    let names: Vec<_> = trace.slices.iter().map(|slice| trace.name(slice)).collect();
    assert_eq!(names, ["a\u{1}\"", "b"]);
    assert_eq!(trace.slices[0].start, 1_700_000_000_123_456_500);
    assert_eq!((trace.slices[1].start, trace.slices[1].duration), (1_700_000_000_123_456_789, 1));
    assert_eq!(trace.slices[1].category, Category::Other);
    assert_eq!(trace.info.not_understood, 2);
    let [counter] = &trace.counters[..] else { panic!("{:?}", trace.counters) };
    assert_eq!((trace.names.text(counter.name), counter.value), ("memory used", 5.0));
    // The list has no end.
    assert!(trace.info.cut_short.is_some());
}

#[test]
fn tracks_are_threads_and_streams_in_their_order() {
    let name = |what: &str, (pid, tid): (u32, u32), args: &str| {
        format!(r#"{{"ph":"M","name":"{what}","pid":{pid},"tid":{tid},"ts":0,"args":{args}}}"#)
    };
    let events = [
        work("kernel", "k", 5.0, 1.0, 3),
        slice((100, 101), "cpu_op", "b", 0.0, 1.0),
        op("a", 0.0, 1.0),
        r#"{"ph":"X","cat":"Trace","name":"PyTorch Profiler (0)","pid":"Spans","tid":"PyTorch Profiler","ts":0,"dur":9}"#.to_owned(),
        name("thread_name", MAIN, r#"{"name":"main"}"#),
        name("thread_sort_index", MAIN, r#"{"sort_index":1}"#),
        name("thread_sort_index", (100, 101), r#"{"sort_index":2}"#),
        name("process_labels", STREAM, r#"{"labels":"GPU 0"}"#),
    ];
    let trace = read(json(&events).as_bytes()).expect("a trace");
    let tracks: Vec<_> = (0..trace.tracks.len()).map(|track| trace.track_name(track)).collect();
    assert_eq!(tracks, ["main", "thread 101", "PyTorch Profiler", "stream 7 of GPU 0"]);
    let kinds: Vec<_> = trace.tracks.iter().map(|track| track.kind).collect();
    let thread = TrackKind::Thread;
    assert_eq!(kinds, [thread, thread, TrackKind::Other, TrackKind::Stream]);
    assert_eq!(trace.slices[3].correlation, 3);
}

/// Checks that an arrow leads to the kernel instead of the action around it, which begins at the
/// same time.
#[test]
fn launches_lead_to_kernels_and_not_to_what_is_around_them() {
    let end = |ph: &str, (pid, tid): (u32, u32), ts: u32| {
        format!(
            r#"{{"ph":"{ph}","cat":"ac2g","name":"ac2g","id":3,"pid":{pid},"tid":{tid},"ts":{ts}}}"#
        )
    };
    let events = [
        op("aten::mm", 1.0, 5.0),
        call("cudaLaunchKernel", 1.0, 2.0, 3),
        work("gpu_user_annotation", "forward", 10.0, 9.0, 0),
        work("kernel", "gemm", 10.0, 5.0, 3),
        end("s", MAIN, 1),
        end("f", STREAM, 10),
    ];
    let trace = read(json(&events).as_bytes()).expect("a trace");
    let [flow] = &trace.flows[..] else { panic!("{:?}", trace.flows) };
    let name = |place: u32| trace.name(&trace.slices[place as usize]);
    assert_eq!((name(flow.from), name(flow.to)), ("cudaLaunchKernel", "gemm"));
}

#[test]
fn arrows_lead_from_slice_to_slice() {
    let events = [
        action("ProfilerStep#1", 0.0, 10.0),
        op("forward", 1.0, 2.0),
        op("backward", 5.0, 2.0),
        arrow(4, (MAIN, 1.0), (MAIN, 5.0)),
        // The other end is on a track without slices.
        arrow(5, (MAIN, 1.0), ((9, 9), 5.0)),
    ];
    let trace = read(json(&events).as_bytes()).expect("a trace");
    let [flow] = &trace.flows[..] else { panic!("{:?}", trace.flows) };
    let name = |place: u32| trace.name(&trace.slices[place as usize]);
    assert_eq!((name(flow.from), name(flow.to)), ("forward", "backward"));
}
