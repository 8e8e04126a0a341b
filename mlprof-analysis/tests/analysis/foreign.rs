//! Traces of other tools, and files that are not strict JSON. The reader must read all valid parts
//! and report the rest.

use mlprof_analysis::Error;
use mlprof_analysis::kineto::read;
use mlprof_analysis::trace::{Category, TrackKind};
use mlprof_analysis::{Analysis, Trace};

use crate::synthetic::{MAIN, STREAM, action, call, json, op, with, work};

/// Returns three steps with an op, a launch and a kernel each.
fn steps() -> Vec<String> {
    let step = |number: u32| {
        let at = f64::from(number) * 100.0;
        [
            action(&format!("ProfilerStep#{number}"), at, 100.0),
            op("aten::mm", at + 10.0, 30.0),
            call("cudaLaunchKernel", at + 20.0, 10.0, 10 + number),
            work("kernel", "sgemm", at + 40.0, 40.0, 10 + number),
        ]
    };
    (1..=3).flat_map(step).collect()
}

/// Returns the steps with one more event in the middle.
fn steps_with(event: &[u8]) -> Vec<u8> {
    let whole = json(&steps());
    let at = whole
        .find("{\"ph\":\"X\",\"cat\":\"user_annotation\",\"name\":\"ProfilerStep#3")
        .expect("it");
    [&whole.as_bytes()[..at], event, b",\n", &whole.as_bytes()[at..]].concat()
}

fn trace(text: &[u8]) -> Trace {
    read(text).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(text)))
}

fn count_of_steps(trace: &Trace) -> usize {
    Analysis::of(trace).steps.iter().filter(|step| step.number.is_some()).count()
}

fn names(trace: &Trace) -> Vec<&str> {
    trace.slices.iter().map(|slice| trace.name(slice)).collect()
}

#[test]
fn a_value_that_is_no_json_costs_that_value() {
    let place = "\"pid\":100,\"tid\":100,\"ts\":205,\"dur\":1";
    for (event, name) in [
        (
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"odd",{place},"args":{{"bandwidth":inf}}}}"#
            ),
            "odd",
        ),
        (
            format!(
                r#"{{"ph":"X","cat":"cpu_op","name":"odd",{place},"args":{{"a":-nan,"b":N/A}}}}"#
            ),
            "odd",
        ),
        (format!(r#"{{"ph":"X","cat":"cpu_op","name":"C:\dir\",{place}}}"#), "C:\\dir\\"),
        (format!(r#"{{"ph":"X","cat":"cpu_op","name":"a "b" c",{place}}}"#), "a \"b\" c"),
        (format!(r#"{{,"ph":"X","cat":"cpu_op","name":"odd",,{place},}}"#), "odd"),
        (format!(r#"{{"ph":"X","cat":"cpu_op","name":"odd" {place}}}"#), "odd"),
        (format!("{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"a\tb\",{place}}}"), "a\tb"),
    ] {
        let trace = trace(&steps_with(event.as_bytes()));
        assert_eq!(count_of_steps(&trace), 3, "{event}");
        assert!(names(&trace).contains(&name), "{event}: {:?}", names(&trace));
        assert_eq!((trace.slices.len(), trace.info.not_understood), (13, 0), "{event}");
        assert!(
            trace.info.notes[0].starts_with("1 event was read despite invalid JSON"),
            "{:?}",
            trace.info.notes
        );
    }
}

#[test]
fn bytes_that_are_no_text_are_replaced() {
    let event = b"{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"\xc4\xe3\",\"pid\":100,\"tid\":100,\"ts\":205,\"dur\":1}";
    let trace = trace(&steps_with(event));
    assert_eq!(count_of_steps(&trace), 3);
    assert!(names(&trace).contains(&"\u{fffd}\u{fffd}"), "{:?}", names(&trace));
}

/// Checks that events after an unreadable event are not lost.
#[test]
fn an_unreadable_event_costs_only_itself() {
    for event in [
        &br#"{"ph":"X","cat":"cpu_op","name":"odd","ts":205,"dur":1,"args":{"a":[1,2}"#[..],
        br#"{"ph":"X","cat":"cpu_op","name":"odd"#,
        br#"{"ph":"X","cat":"cpu_op","name":"odd","args":{"#,
        br#"{"ph":"X","args":{"x":{"ph":1,[}]}}"#,
        br#"{"ph":"X"]}"#,
        br#"]}"#,
        b"\x00\x01\x02",
        br#"{:}"#,
        b"12",
        b"\"text\"",
        b"null",
    ] {
        let shown = String::from_utf8_lossy(event);
        let trace = trace(&steps_with(event));
        assert_eq!(count_of_steps(&trace), 3, "{shown}");
        assert_eq!(trace.slices.len(), 12, "{shown}");
        assert_eq!(trace.info.cut_short, None, "{shown}");
        assert_eq!(trace.info.rank, 1, "{shown}");
    }
    let trace = trace(&steps_with(b"{:}"));
    assert!(
        trace.info.notes[0].starts_with("1 event was left out: invalid JSON"),
        "{:?}",
        trace.info.notes
    );
    assert_eq!(trace.info.not_understood, 1);
    // Top-level fields after the events are also read.
    let text = json(&steps())
        .replace("{\"schemaVersion\":1,\"distributedInfo\":{\"rank\": 1, \"world_size\": 2},", "{");
    let text = text.replace("\"correlation\":13", "\"correlation\":[13");
    let text = text.replace("\"traceName\":\"x\"", "\"distributedInfo\":{\"rank\":1}");
    assert_eq!(read(text.as_bytes()).expect("a trace").info.rank, 1, "{text}");
}

#[test]
fn a_bad_field_of_the_trace_costs_that_field() {
    let whole = json(&steps());
    for (field, is_told) in [
        ("\"metric\": nan", true),
        ("\"metric\": run 7", true),
        ("\"path\": \"C:\\dir\\\"", true),
        ("\"path\": \"say \"hi\" to\"", true),
        ("\"distributedInfo\": null", false),
        ("\"distributedInfo\": \"none\"", false),
        ("\"deviceProperties\": [{\"id\": 0, \"name\": \"a\\b\", \"x\": nan}]", true),
        ("\"deviceProperties\": 12", false),
        ("\"baseTimeNanoseconds\": \"1700000000000000000\"", false),
        ("\"baseTimeNanoseconds\": {}", false),
        ("\"displayTimeUnit\": \"ns\"", false),
        ("\"metadata\": {\"a\": [1, 2, {\"b\": nan}]}", false),
        ("\"metadata\": {\"a\": [1", true),
    ] {
        for text in [
            whole.replacen("\"schemaVersion\":1", &format!("\"schemaVersion\":1,\n{field}"), 1),
            whole.replacen("\"traceName\":\"x\"", &format!("{field},\n\"traceName\":\"x\""), 1),
        ] {
            let trace = read(text.as_bytes()).unwrap_or_else(|error| panic!("{error}: {field}"));
            assert_eq!(count_of_steps(&trace), 3, "{field}");
            let told = trace.info.notes.iter().any(|note| note.contains("is not valid JSON"));
            assert_eq!(told, is_told, "{field}: {:?}", trace.info.notes);
        }
    }
    let text = whole
        .replace("{\"rank\": 1, \"world_size\": 2}", "{\"rank\": \"1\", \"world_size\": \"2\"}");
    let info = read(text.as_bytes()).expect("a trace").info;
    assert_eq!((info.rank, info.has_rank, info.world_size), (1, true, 2));
    // A damaged rank must not lead to a list of billions of missing ranks.
    let text = whole.replace(
        "\"rank\": 1, \"world_size\": 2",
        "\"rank\": 4000000000, \"world_size\": 4000000001",
    );
    let info = read(text.as_bytes()).expect("a trace").info;
    assert_eq!((info.rank, info.has_rank, info.world_size), (0, false, 0));
}

#[test]
fn documents_begin_and_end_in_many_ways() {
    let events = steps().join(",\n");
    for text in [
        format!("\u{feff}{}", json(&steps())),
        format!("\n\n  {}\n\n", json(&steps())),
        format!("[{events}]"),
        format!("[{events}"),
        format!("[{events},\n"),
        format!("[,{events},]"),
        format!("{{\"traceEvents\":[,{events},]}}"),
        format!("{{\"traceEvents\":[{events}],}}"),
        format!("{{\"traceEvents\":[],\"a\":1,\"traceEvents\":[{events}]}}"),
        format!("{{\"traceEvents\":null,\"traceEvents\":[{events}]}}"),
        format!("{{\"traceEvents\":[{events}]"),
        format!("{{\"a\":\"{}\",\"traceEvents\":[{events}]}}", "x".repeat(1 << 20)),
        format!("[{}]", events.replace(",\n", "\n")),
    ] {
        let trace = trace(text.as_bytes());
        assert_eq!((trace.slices.len(), count_of_steps(&trace)), (12, 3), "{:.60}", text);
        assert_eq!(trace.info.not_understood, 0, "{:.60}", text);
    }
}

#[test]
fn one_argument_of_another_type_leaves_the_others() {
    for arguments in [
        r#"{"correlation":7,"Collective name":5,"Called from":{},"bytes":10,"Seq":"x"}"#,
        r#"{"correlation":"7","bytes":"10","Input Dims":"none","grid":null}"#,
        r#"{"correlation":7,"bytes":12,"Bytes":10}"#,
        r#"{"correlation":8,"bytes":10,"correlation":7}"#,
        r#"{"bytes":1e1,"correlation":7.0,"stream":"x","device":[]}"#,
    ] {
        let trace = trace(json(&[with(STREAM, "kernel", "k", (1.0, 1.0), arguments)]).as_bytes());
        let slice = &trace.slices[0];
        let bytes = trace.details(slice).map(|details| details.bytes);
        assert_eq!((slice.correlation, bytes), (7, Some(10)), "{arguments}");
    }
}

#[test]
fn ids_may_have_64_bits() {
    for id in [
        "18446744073709551000",
        "\"9223372036854775807\"",
        "4294967300",
        "\"0xffffffffff\"",
        "3000000000",
    ] {
        let tied = format!("{{\"correlation\":{id}}}");
        let events = [
            with(MAIN, "cuda_runtime", "cudaLaunchKernel", (1.0, 1.0), &tied),
            with(STREAM, "kernel", "k", (5.0, 1.0), &tied),
            with(STREAM, "kernel", "other", (7.0, 1.0), "{\"correlation\":4}"),
        ];
        let trace = trace(json(&events).as_bytes());
        let [call, kernel, other] = [0, 1, 2].map(|place| trace.slices[place].correlation);
        assert!(call == kernel && call != 0 && call != other, "{id}: {call} {kernel} {other}");
    }
    // All of these values mean "no id".
    for id in ["-1", "4294967295", "18446744073709551615", "null", "\"\""] {
        let event = with(STREAM, "kernel", "k", (5.0, 1.0), &format!("{{\"correlation\":{id}}}"));
        assert_eq!(trace(json(&[event]).as_bytes()).slices[0].correlation, 0, "{id}");
    }
}

#[test]
fn beginnings_and_ends_become_slices() {
    let text = br#"[
        {"ph":"B","name":"load","cat":"app","pid":1,"tid":1,"ts":0,"args":{"bytes":7}},
        {"ph":"E","pid":1,"tid":1,"ts":50},
        {"ph":"B","name":"parse","pid":1,"tid":1,"ts":10},
        {"ph":"E","name":"parse","pid":1,"tid":1,"ts":30},
        {"ph":"B","name":"other","pid":1,"tid":2,"ts":20},
        {"ph":"E","name":"other","pid":1,"tid":2,"ts":"25"},
        {"ph":"b","cat":"net","id":"0x1","name":"get","pid":1,"tid":1,"ts":5},
        {"ph":"b","cat":"net","id":"0x2","name":"get","pid":1,"tid":1,"ts":6},
        {"ph":"e","cat":"net","id":"0x1","name":"get","pid":1,"tid":1,"ts":40},
        {"ph":"e","cat":"net","id":"0x2","name":"get","pid":1,"tid":1,"ts":60},
        {"ph":"n","cat":"net","id":"0x2","name":"half","pid":1,"tid":1,"ts":50},
        {"ph":"B","name":"open","pid":1,"tid":1,"ts":70},
        {"ph":"E","pid":1,"tid":3,"ts":70},
        {"ph":"i","name":"here","pid":1,"tid":1,"ts":70,"s":"t"},
        {"ph":"P","name":"sample","pid":1,"tid":1,"ts":70},
        {"name":"nothing","pid":1,"tid":1,"ts":70}
    ]"#;
    let trace = trace(text);
    let of = |name: &str| -> Vec<(i64, i64)> {
        let slices = trace.slices.iter().filter(|slice| trace.name(slice) == name);
        slices.map(|slice| (slice.start, slice.duration)).collect()
    };
    assert_eq!((of("load"), of("parse")), (vec![(0, 50_000)], vec![(10_000, 20_000)]));
    assert_eq!(of("other"), [(20_000, 5_000)]);
    assert_eq!(of("get"), [(5_000, 35_000), (6_000, 54_000)]);
    assert_eq!(trace.slices.len(), 5);
    // Instant events are not losses.
    assert_eq!((trace.info.events, trace.info.not_understood), (16, 3));
    // Asynchronous slices are not on a thread track.
    for slice in trace.slices.iter().filter(|slice| trace.name(slice) == "get") {
        assert_eq!(trace.tracks[slice.track as usize].kind, TrackKind::Other);
    }
    assert_eq!(
        trace.info.notes,
        [
            "1 event was left out: a begin event (B, b or S) without an end event",
            "1 event was left out: an end event (E, e or F) without a begin event",
            "1 event was left out: a kind without durations (i)",
            "1 event was left out: a kind without durations (n, asynchronous)",
            "1 event was left out: no kind (\"ph\")",
            "1 event was left out: unsupported kind \"P\"",
        ]
    );
}

#[test]
fn impossible_times_are_left_out_and_stated() {
    let place = "\"cat\":\"cpu_op\",\"name\":\"odd\",\"pid\":100,\"tid\":100";
    for (times, text) in [
        ("\"ts\":250,\"dur\":18446744073709541.616", "1 event was left out: an impossible time"),
        ("\"ts\":250,\"dur\":9223372036854775.807", "1 event was left out: an impossible time"),
        ("\"ts\":9999999999999999,\"dur\":1", "1 event was left out: an impossible time"),
        ("\"ts\":250,\"dur\":-10", "1 event was left out: an impossible time"),
        (
            "\"ts\":1700000000000000,\"dur\":1",
            "1 event was left out: a start time months or years away",
        ),
        (
            "\"ts\":-1700000000000000,\"dur\":1",
            "1 event was left out: a start time months or years away",
        ),
        ("\"ts\":250,\"dur\":3600000000", "1 event was left out: a duration over 1,000 times"),
        ("\"ts\":\"nan\",\"dur\":1", "1 event was left out: no time"),
        ("\"ts\":null,\"dur\":1", "1 event was left out: no time"),
        ("\"dur\":1", "1 event was left out: no time"),
    ] {
        let event = format!("{{\"ph\":\"X\",{place},{times}}}");
        let trace = trace(&steps_with(event.as_bytes()));
        let analysis = Analysis::of(&trace);
        assert_eq!((count_of_steps(&trace), analysis.trace_ns), (3, 300_000), "{times}");
        assert_eq!(trace.info.not_understood, 1, "{times}");
        assert!(analysis.notes[0].starts_with(text), "{times}: {:?}", analysis.notes);
    }
    let event = format!("{{\"ph\":\"X\",{place},\"ts\":250}}");
    let notes = trace(&steps_with(event.as_bytes())).info.notes;
    assert_eq!(notes, ["1 event was counted as 0 s: no duration"]);
}

#[test]
fn processes_may_have_the_number_of_a_device() {
    let label = |pid: u32, labels: &str| {
        format!(
            r#"{{"ph":"M","name":"process_labels","pid":{pid},"tid":0,"ts":0,"args":{{"labels":"{labels}"}}}}"#
        )
    };
    let slice = |pid: u32, tid: u32, category: &str, name: &str, ts: f64| {
        with((pid, tid), category, name, (ts, 30.0), r#"{"correlation":5}"#)
    };
    // The process is 7, its thread is 7, and it works on stream 7 of device 7.
    let events = [
        label(7, "CPU"),
        label(0, "GPU 0"),
        label(7, "GPU 7"),
        slice(7, 7, "user_annotation", "ProfilerStep#1", 0.0),
        slice(7, 7, "cuda_runtime", "cudaLaunchKernel", 0.0),
        slice(7, 7, "kernel", "k", 10.0),
        r#"{"ph":"s","cat":"ac2g","name":"ac2g","id":5,"pid":7,"tid":7,"ts":0}"#.to_owned(),
        r#"{"ph":"f","cat":"ac2g","name":"ac2g","id":5,"pid":7,"tid":7,"ts":10}"#.to_owned(),
    ];
    let trace = trace(json(&events).as_bytes());
    let analysis = Analysis::of(&trace);
    assert_eq!((count_of_steps(&trace), analysis.threads.len(), analysis.devices.len()), (1, 1, 1));
    assert_eq!(analysis.devices[0].device, 7);
    let labels = |kind: TrackKind| {
        let (_, track) = trace.tracks_of(kind).next().expect("a track");
        trace.names.text(trace.processes[track.process as usize].labels)
    };
    assert_eq!((labels(TrackKind::Thread), labels(TrackKind::Stream)), ("CPU", "GPU 7"));
    let [flow] = &trace.flows[..] else { panic!("{:?}", trace.flows) };
    let category = |place: u32| trace.slices[place as usize].category;
    assert_eq!((category(flow.from), category(flow.to)), (Category::CudaRuntime, Category::Kernel));
}

#[test]
fn places_may_be_texts() {
    let events = r#"[
        {"ph":"X","cat":"Kernel","name":"k","pid":"0","tid":"stream 7","ts":1,"dur":1,"args":{"correlation":"5"}},
        {"ph":"X","cat":"Runtime","name":"cudaLaunchKernel","pid":"44","tid":"45","ts":0,"dur":1,"args":{"correlation":5}},
        {"ph":"X","cat":"kernel","name":"l","pid":"GPU 1","tid":"Stream #3","ts":1,"dur":1},
        {"ph":"X","cat":"cpu_op","name":"a","pid":null,"tid":null,"ts":1,"dur":1}
    ]"#;
    let analysis = Analysis::of(&trace(events.as_bytes()));
    let streams: Vec<_> =
        analysis.devices.iter().map(|device| (device.device, device.streams[0].stream)).collect();
    assert_eq!(streams, [(0, 7), (1, 3)]);
    assert_eq!(analysis.threads.len(), 2);
}

/// Checks a handmade trace in the format of XProf's trace viewer, as written by JAX and TensorFlow.
#[test]
fn devices_of_xprof_are_known_by_their_names() {
    let name = |what: &str, pid: u32, tid: u32, name: &str| {
        format!(
            r#"{{"ph":"M","pid":{pid},"tid":{tid},"name":"{what}","args":{{"name":"{name}"}}}}"#
        )
    };
    let slice = |pid: u32, tid: u32, name: &str, (ts, dur): (u32, u32), args: &str| {
        format!(
            r#"{{"ph":"X","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"name":"{name}","args":{{{args}}}}}"#
        )
    };
    let events = [
        name("process_name", 1, 0, "/device:GPU:0 NVIDIA H100"),
        name("thread_name", 1, 13, "Stream #13(Compute,MemcpyD2D)"),
        name("thread_name", 1, 20, "XLA Modules"),
        name("process_name", 701, 0, "/host:CPU"),
        name("thread_name", 701, 4, "python"),
        slice(701, 4, "train", (0, 100), r#""step_num":"3""#),
        slice(701, 4, "cuLaunchKernel", (10, 5), r#""correlation_id":"9""#),
        slice(1, 13, "fusion_1", (20, 30), r#""correlation_id":"9""#),
        slice(1, 13, "MemcpyD2H", (60, 10), r#""correlation_id":"10""#),
        slice(1, 20, "jit_step", (20, 50), ""),
        "{}".to_owned(),
    ];
    let text = format!(
        "{{\"displayTimeUnit\":\"ns\",\"metadata\":{{}},\"traceEvents\":[{}]}}",
        events.join(",")
    );
    let trace = trace(text.as_bytes());
    let analysis = Analysis::of(&trace);
    assert_eq!((count_of_steps(&trace), analysis.steps[0].number), (1, Some(3)));
    assert_eq!((analysis.threads.len(), analysis.devices.len()), (1, 1));
    let device = &analysis.devices[0];
    assert_eq!((device.device, device.streams.len(), device.streams[0].stream), (0, 1, 13));
    assert_eq!((device.launches.launched, device.launches.unknown), (1, 1));
    assert_eq!(trace.info.notes, Vec::<String>::new());
}

/// Checks a handmade trace in the format of `trace_view.json`.
#[test]
fn devices_of_ascend_are_known_by_their_names() {
    let text = r#"[
        {"name":"process_name","pid":100,"tid":0,"args":{"name":"Python"},"ph":"M"},
        {"name":"process_name","pid":101,"tid":0,"args":{"name":"CANN"},"ph":"M"},
        {"name":"process_name","pid":102,"tid":0,"args":{"name":"Ascend Hardware"},"ph":"M"},
        {"name":"process_labels","pid":102,"tid":0,"args":{"labels":"NPU"},"ph":"M"},
        {"name":"thread_name","pid":102,"tid":2,"args":{"name":"Stream 2"},"ph":"M"},
        {"name":"process_name","pid":103,"tid":0,"args":{"name":"Overlap Analysis"},"ph":"M"},
        {"name":"aten::mm","pid":100,"tid":7,"ts":"1699529623106750.290","dur":30.5,"cat":"cpu_op","ph":"X","args":{}},
        {"name":"Node@launch","pid":101,"tid":7,"ts":"1699529623106755.290","dur":3,"ph":"X","args":{"connection_id":12}},
        {"name":"MatMul","pid":102,"tid":2,"ts":"1699529623106770.290","dur":20,"ph":"X","args":{"connection_id":12}},
        {"name":"EVENT_WAIT","pid":102,"tid":2,"ts":"1699529623106795.290","dur":20,"ph":"X","args":{}},
        {"name":"Computing","pid":103,"tid":1,"ts":"1699529623106770.290","dur":20,"ph":"X"}
    ]"#;
    let analysis = Analysis::of(&trace(text.as_bytes()));
    assert_eq!((analysis.threads.len(), analysis.devices.len()), (2, 1));
    let device = &analysis.devices[0];
    assert_eq!((device.launches.launched, device.streams[0].stream), (1, 2));
}

#[test]
fn other_formats_are_refused_with_a_sentence() {
    for (text, expected) in [
        (&b"SQLite format 3\0"[..], "SQLite database"),
        (b"\x0a\x0c\x08\x01", "binary format of Perfetto or XProf (protobuf)"),
        (b"PK\x03\x04", "ZIP"),
        (b"\xff\xfe{\0", "UTF-16"),
        (b"<!DOCTYPE html>", "HTML"),
        (b"version https://git-lfs.github.com/spec/v1\n", "Git LFS"),
        (br#"{"rocprofiler-sdk-tool":[{"a":1}]}"#, "rocprofv3"),
        (br#"{"schema":"1.1.1-chakra.0.0.4","nodes":[]}"#, "Chakra"),
        (br#"{"nodes":[],"links":{}}"#, "an object with \"nodes\", \"links\""),
        (br#"{"traceEvents":{}}"#, "an object with \"traceEvents\""),
        (b"", "no JSON object"),
        (b"12", "no JSON object"),
    ] {
        let shown = String::from_utf8_lossy(text);
        match read(text) {
            Err(Error::NoTrace(reason)) => {
                assert!(reason.contains(expected), "{shown}: {reason}")
            }
            other => panic!("{shown}: {other:?}"),
        }
    }
    let only_moments = br#"[{"ph":"i","name":"a","ts":1},{"ph":"i","name":"b","ts":2}]"#;
    let error = read(&only_moments[..]).expect_err("no slice").to_string();
    assert!(error.contains("2 events were left out: a kind without durations (i)"), "{error}");
}

/// Checks that a skipped field may be longer than the maximum length of an event.
#[test]
fn a_long_field_is_not_kept() {
    use std::io::Read;
    let begin = b"{\"results\":[".as_slice();
    let middle = b"[1,2,{\"a\":\"b\"}],".repeat(1 << 15);
    let end = format!("1],\"traceEvents\":[{}]}}", steps().join(","));
    let mut parts: Vec<Box<dyn Read + '_>> = vec![Box::new(begin)];
    parts.extend((0..64).map(|_| Box::new(middle.as_slice()) as Box<dyn Read>));
    parts.push(Box::new(end.as_bytes()));
    let text = parts.into_iter().reduce(|all, part| Box::new(all.chain(part))).expect("parts");
    assert_eq!(read(text).expect("a trace").slices.len(), 12);
}
