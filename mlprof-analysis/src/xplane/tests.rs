use prost::Message;

use super::messages::{Value, XEvent, XPlane, XSpace};
use crate::trace::TraceBuilder;
use crate::{Trace, kineto};

/// Trace of a step that waits for data, computes in a module, launches a kernel and copies.
const TRACE: &str = r#"{"baseTimeNanoseconds": 1700000000000000000, "traceEvents":[
{"ph":"X","cat":"user_annotation","name":"ProfilerStep#3","pid":9,"tid":9,"ts":10,"dur":900},
{"ph":"X","cat":"user_annotation","name":"[_TrainingEpochLoop].train_dataloader_next","pid":9,"tid":9,"ts":20,"dur":100},
{"ph":"X","cat":"user_annotation","name":"read","pid":9,"tid":9,"ts":30,"dur":50},
{"ph":"X","cat":"user_annotation","name":"[module]Linear: net.0","pid":9,"tid":9,"ts":150,"dur":300},
{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":9,"tid":9,"ts":160,"dur":100,"args":{"Input Dims":[[2,3],[3,4]]}},
{"ph":"X","cat":"user_annotation","name":"gemm","pid":9,"tid":9,"ts":165,"dur":30},
{"ph":"X","cat":"cuda_runtime","name":"cudaLaunchKernel","pid":9,"tid":9,"ts":170,"dur":10,"args":{"correlation":7}},
{"ph":"X","cat":"kernel","name":"sgemm","pid":0,"tid":7,"ts":200,"dur":250.5,"args":{"correlation":7,"device":0,"stream":7,
 "grid":[108,1,1],"block":[256,1,1],"registers per thread":32,"shared memory":1024,"est. achieved occupancy %":50}},
{"ph":"X","cat":"gpu_memcpy","name":"Memcpy DtoH (Device -> Pageable)","pid":0,"tid":7,"ts":500,"dur":60,"args":{"correlation":8,"bytes":64}},
{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":9,"ts":180,
 "args":{"Addr":4096,"Bytes":48,"Total Allocated":48,"Total Reserved":100,"Device Type":1,"Device Id":0}},
{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":9,"ts":700,
 "args":{"Addr":4096,"Bytes":-48,"Total Allocated":0,"Total Reserved":100,"Device Type":1,"Device Id":0}},
{"ph":"M","name":"process_labels","pid":0,"tid":0,"args":{"labels":"GPU 0"}},
{"ph":"M","name":"thread_name","pid":9,"tid":9,"args":{"name":"main"}}]}"#;

/// Converts a trace to the XProf format and parses the result.
fn space(json: &str) -> XSpace {
    written(&kineto::read_for_xprof(json.as_bytes()).expect("a trace"))
}

fn written(trace: &Trace) -> XSpace {
    let mut bytes = Vec::new();
    super::write(trace, &mut bytes).expect("memory takes all");
    XSpace::decode(bytes.as_slice()).expect("a space")
}

fn plane<'space>(space: &'space XSpace, name: &str) -> &'space XPlane {
    space.planes.iter().find(|plane| plane.name == name).expect(name)
}

/// Returns the names, starts and durations of the first line's events, in nanoseconds.
fn events(plane: &XPlane) -> Vec<(&str, i64, i64)> {
    let event = |event: &XEvent| {
        let name = plane.event_metadata[&event.metadata_id].name.as_str();
        assert_eq!((event.offset_ps % 1000, event.duration_ps % 1000), (0, 0));
        (name, event.offset_ps / 1000, event.duration_ps / 1000)
    };
    plane.lines[0].events.iter().map(event).collect()
}

/// Returns a value of the first event with this name.
fn stat(plane: &XPlane, event: &str, stat: &str) -> Option<Value> {
    let is_it = |it: &&XEvent| plane.event_metadata[&it.metadata_id].name == event;
    let event = plane.lines.iter().flat_map(|line| &line.events).find(is_it)?;
    let of = event.stats.iter().find(|it| plane.stat_metadata[&it.metadata_id].name == stat);
    of.and_then(|stat| stat.value.clone())
}

#[test]
fn threads_are_lines_of_the_host_and_keep_their_nanoseconds() {
    let space = space(TRACE);
    let host = plane(&space, "/host:CPU");
    assert_eq!(host.lines.len(), 1);
    assert_eq!(host.lines[0].name, "main");
    assert_eq!(host.lines[0].timestamp_ns, 1_700_000_000_000_010_000);
    let expected = [
        ("ProfilerStep", 0, 900_000),
        ("IteratorGetNext", 10_000, 100_000),
        ("read", 20_000, 50_000),
        ("[module]Linear: net.0", 140_000, 300_000),
        ("net/0/aten.mm:mm", 150_000, 100_000),
        ("gemm", 155_000, 30_000),
        ("cudaLaunchKernel", 160_000, 10_000),
        ("MemoryAllocation", 170_000, 0),
        ("MemoryDeallocation", 690_000, 0),
    ];
    assert_eq!(events(host), expected);
    let shown = host.event_metadata.values().find(|it| it.name == "IteratorGetNext");
    let shown = shown.expect("it waits").display_name.as_str();
    assert_eq!(shown, "[_TrainingEpochLoop].train_dataloader_next");
}

#[test]
fn steps_and_memory_say_what_xprof_asks() {
    let space = space(TRACE);
    let host = plane(&space, "/host:CPU");
    let signed = |value| Some(Value::Signed(value));
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    assert_eq!(stat(host, "ProfilerStep", "step_num"), signed(3));
    assert_eq!(stat(host, "ProfilerStep", "_r"), signed(1));
    assert_eq!(stat(host, "net/0/aten.mm:mm", "shapes"), text("[[2,3],[3,4]]"));
    assert_eq!(stat(host, "MemoryAllocation", "bytes_allocated"), signed(48));
    assert_eq!(stat(host, "MemoryAllocation", "bytes_available"), signed(52));
    assert_eq!(stat(host, "MemoryAllocation", "allocator_name"), text("GPU_0"));
    assert_eq!(stat(host, "MemoryAllocation", "tf_op"), text("net/0/aten.mm(memory)"));
    assert_eq!(stat(host, "MemoryDeallocation", "tf_op"), None);
    assert_eq!(stat(host, "MemoryDeallocation", "peak_bytes_in_use"), signed(48));
    assert_eq!(stat(host, "MemoryDeallocation", "requested_bytes"), signed(48));
}

#[test]
fn devices_are_planes_and_kernels_know_their_op() {
    let space = space(TRACE);
    let device = plane(&space, "/device:GPU:0");
    assert_eq!(events(device), [("sgemm", 190_000, 250_500), ("MemcpyDToH", 490_000, 60_000)]);
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    assert_eq!(stat(device, "sgemm", "tf_op"), text("net/0/aten.mm:mm"));
    assert_eq!(stat(device, "sgemm", "correlation_id"), Some(Value::Signed(7)));
    let launch =
        "regs:32 static_shared:0 dynamic_shared:1024 grid:108,1,1 block:256,1,1 occ_pct:50";
    assert_eq!(stat(device, "sgemm", "kernel_details"), text(launch));
    let host = plane(&space, "/host:CPU");
    assert_eq!(stat(host, "cudaLaunchKernel", "correlation_id"), Some(Value::Signed(7)));
    let copy = "kind_src:device kind_dst:host size:64 dest:0 async:1";
    assert_eq!(stat(device, "MemcpyDToH", "memcpy_details"), text(copy));
    // The trace does not link the copy to an op.
    assert_eq!(stat(device, "MemcpyDToH", "tf_op"), None);
}

#[test]
fn devices_are_those_of_the_vendor_whose_library_was_called() {
    let vendor = |json: &str| {
        let space = space(json);
        let device = plane(&space, "/device:GPU:0");
        let is_it = |id: i64| device.stat_metadata[&id].name == "device_vendor";
        let stat = device.stats.iter().find(|stat| is_it(stat.metadata_id));
        stat.and_then(|stat| stat.value.clone())
    };
    let text = |text: &str| Some(Value::Text(text.to_owned()));
    assert_eq!(vendor(TRACE), text("Nvidia"));
    assert_eq!(vendor(&TRACE.replace("cudaLaunchKernel", "hipLaunchKernel")), text("AMD"));
}

#[test]
fn notes_state_missing_parts() {
    let empty = TraceBuilder::default().finish();
    assert_eq!(written(&empty).warnings, ["the trace has no slices"]);
    let whole = space(TRACE);
    assert_eq!((whole.warnings.len(), whole.errors.len()), (0, 0));
    let end = TRACE.find(r#"{"ph":"M","name":"thread_name""#).expect("its last event");
    let cut = space(&TRACE[..end + 20]);
    let [warning] = cut.warnings.as_slice() else { panic!("{:?}", cut.warnings) };
    assert!(warning.starts_with("the end of the trace is missing"), "{warning}");
}

/// Checks a trace with stacks from PyTorch, in which the frame of `profiler.step()` ends in the
/// step that it begins.
#[test]
fn steps_stay_on_the_line_of_what_they_launch() {
    let slice = |category: &str, name: &str, start: u32, duration: u32| {
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":1,"tid":1,"ts":{start},"dur":{duration}}},"#
        )
    };
    let mut json = r#"{"traceEvents":["#.to_owned();
    json += &slice("python_function", "train.py(1): loop", 0, 4000);
    for number in 0..3 {
        let start = 1000 * (number + 1);
        json += &slice("python_function", "profiler.py(800): step", start - 20, 30);
        json += &slice("python_function", "record.py(10): enter", start - 10, 15);
        json += &slice("user_annotation", &format!("ProfilerStep#{number}"), start, 980);
        json += &slice("cpu_op", "aten::mm", start + 100, 600);
        // This slice crosses the op, as slices of framework threads can do.
        json += &slice("user_annotation", "late", start + 650, 100);
    }
    let json = json.trim_end_matches(',').to_owned() + "]}";
    let written = space(&json);
    let host = plane(&written, "/host:CPU");
    let names: Vec<Vec<&str>> = host
        .lines
        .iter()
        .map(|line| {
            line.events.iter().map(|event| &*host.event_metadata[&event.metadata_id].name).collect()
        })
        .collect();
    let [base, moved] = &names[..] else { panic!("{names:?}") };
    let of_step = ["ProfilerStep", "aten.mm:mm"];
    assert_eq!(*base, [&["train.py(1): loop"][..], &of_step, &of_step, &of_step].concat());
    assert_eq!(moved.len(), 9, "{moved:?}");
    assert_eq!(host.lines[1].name, "thread 1 (overlapping)");
}

#[test]
fn devices_are_of_the_vendor_and_have_the_memory_that_the_trace_says() {
    let vendor = |json: &str| {
        let written = space(json);
        let device = plane(&written, "/device:GPU:0");
        let of_plane = device
            .stats
            .iter()
            .find(|stat| device.stat_metadata[&stat.metadata_id].name == "device_vendor");
        of_plane.and_then(|stat| stat.value.clone())
    };
    let is = |vendor: &str| Some(Value::Text(vendor.to_owned()));
    assert_eq!(vendor(TRACE), is("Nvidia"));
    let hip = TRACE.replace("cudaLaunchKernel", "hipLaunchKernel");
    assert_eq!(vendor(&hip), is("AMD"));
    let properties =
        r#"{"deviceProperties":[{"id":0,"name":"AMD Instinct MI300X","totalGlobalMem":1000}],"#;
    let described = TRACE.replacen('{', properties, 1);
    assert_eq!(vendor(&described), is("AMD"), "the device's own name counts");
    let of_described = space(&described);
    let host = plane(&of_described, "/host:CPU");
    let signed = |value| Some(Value::Signed(value));
    assert_eq!(stat(host, "MemoryAllocation", "bytes_available"), signed(952));
    // Before the first free, more memory was in use.
    let freed = described
        .replace(r#""Bytes":48,"Total Allocated":48"#, r#""Bytes":-52,"Total Allocated":48"#);
    let of_freed = space(&freed);
    let host = plane(&of_freed, "/host:CPU");
    assert_eq!(stat(host, "MemoryDeallocation", "peak_bytes_in_use"), signed(100));
}
