//! Compares `mlprof analyze` with HolisticTraceAnalysis on the same traces. The results must be
//! equal where HolisticTraceAnalysis is correct.

use std::fmt::Write;
use std::path::Path;
use std::process::Command;

use serde_json::Value;
use tests::{program, python};

const SCRIPT: &str = r#"
import json, sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_dir=sys.argv[1])
temporal = analysis.get_temporal_breakdown(visualize=False).iloc[0]
types, _ = analysis.get_gpu_kernel_breakdown(visualize=False, include_memory_kernels=True)
idle, _ = analysis.get_idle_time_breakdown(visualize=False)
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
queue = analysis.get_queue_length_summary().reset_index()
bandwidth = analysis.get_memory_bw_summary().reset_index()
overlap = analysis.get_comm_comp_overlap(visualize=False).iloc[0]
print(json.dumps({
    "idle": float(temporal["idle_time(us)"]),
    "compute": float(temporal["compute_time(us)"]),
    "non_compute": float(temporal["non_compute_time(us)"]),
    "types": types.set_index("kernel_type")["sum"].astype(float).to_dict(),
    "streams": [[int(row["stream"]), row["idle_category"], float(row["idle_time"])] for _, row in idle.iterrows()],
    "delays": sorted(launches["launch_delay"].astype(float)),
    "short": int((launches["gpu_duration"] < launches["cpu_duration"]).sum()),
    "queues": {str(int(row[("stream", "")])): float(row[("queue_length", "max")]) for _, row in queue.iterrows()},
    "bandwidth": {row[("name", "")]: float(row[("memory_bw_gbps", "max")]) for _, row in bandwidth.iterrows()},
    "overlap": float(overlap["comp_comm_overlap_pctg"]),
}))"#;

/// Reproducible pseudo-random numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// Returns a trace with kernels, communication and copies, in which some launches are late.
/// `fraction` adds fractions of microseconds.
fn trace(seed: u64, fraction: bool) -> (String, u32) {
    let mut numbers = Numbers(seed);
    let mut text = String::from(
        "{\"schemaVersion\":1,\n\"distributedInfo\":{\"backend\": \"nccl\", \"rank\": 0, \"world_size\": 1},\n\
         \"deviceProperties\":[{\"id\":0,\"name\":\"A\"}],\n\"traceEvents\":[\n",
    );
    // Launches are at even and starts at odd microseconds, because the order of simultaneous events
    // in HTA is arbitrary.
    let (mut now, mut free) = (100_u64, [0_u64; 3]);
    let count = 300;
    for correlation in 1..=count {
        let (stream, category, name) = match numbers.below(5) {
            0 => (1, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL"),
            1 => (2, "gpu_memcpy", "Memcpy HtoD (Pinned -> Device)"),
            2 => (0, "kernel", "elementwise"),
            _ => (0, "kernel", "gemm"),
        };
        let api = if category == "kernel" { "cudaLaunchKernel" } else { "cudaMemcpyAsync" };
        let call = 2 * (2 + numbers.below(5));
        let begin = (now + 4 + 2 * numbers.below(8)).max(free[stream] + 2 * numbers.below(30)) | 1;
        let duration = 2 * (2 + numbers.below(60));
        free[stream] = begin + duration;
        let mut part = || if fraction { numbers.below(1000) } else { 0 };
        let mut time = |whole: u64| format!("{whole}.{:03}", part());
        let number = [7, 20, 21][stream];
        let bytes = duration * 1000;
        let (start, length) = (time(now), time(call));
        let _ = writeln!(
            text,
            "{{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::op\",\"pid\":9,\"tid\":9,\"ts\":{now},\"dur\":{},\"args\":{{\"External id\":{correlation}}}}},",
            call + 1
        );
        let _ = writeln!(
            text,
            "{{\"ph\":\"X\",\"cat\":\"cuda_runtime\",\"name\":\"{api}\",\"pid\":9,\"tid\":9,\"ts\":{start},\"dur\":{length},\"args\":{{\"External id\":{correlation},\"correlation\":{correlation},\"cbid\":211}}}},"
        );
        let (start, length) = (time(begin), time(duration));
        let _ = writeln!(
            text,
            "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":0,\"tid\":{number},\"ts\":{start},\"dur\":{length},\"args\":{{\"External id\":{correlation},\"device\":0,\"context\":1,\"stream\":{number},\"correlation\":{correlation},\"bytes\":{bytes},\"memory bandwidth (GB/s)\":1.0}}}},"
        );
        now += call + 2 + 2 * numbers.below(40);
    }
    text.push_str("{\"ph\":\"M\",\"name\":\"process_labels\",\"pid\":0,\"tid\":0,\"ts\":0,\"args\":{\"labels\":\"GPU 0\"}}\n],\"traceName\":\"x\"}\n");
    (text, count)
}

fn analyzed(folder: &Path) -> Value {
    let mlprof = program::build("mlprof", "mlprof");
    let output = Command::new(mlprof).arg("analyze").arg(folder).arg("--json").output();
    let output = output.expect("it was built");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let json: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    json["traces"][0].clone()
}

#[test]
fn analyses_agree_with_holistic_trace_analysis() {
    for (seed, fraction) in [(1, false), (2, false), (3, true)] {
        let folder = tempfile::tempdir().expect("a folder");
        let (text, count) = trace(seed, fraction);
        std::fs::write(folder.path().join("rank0.json"), text).expect("a file");
        let hta = crate::readers::answer(&python::run_with_trace_readers(SCRIPT, &[folder.path()]));
        compare(&analyzed(folder.path()), &hta, if fraction { f64::from(count) } else { 0.0 });
    }
}

/// Compares both results. `tolerance` is in microseconds and applies to sums.
fn compare(ours: &Value, hta: &Value, tolerance: f64) {
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let microseconds = |value: &Value| number(value) / 1000.0;
    let device = &ours["devices"][0];
    let same = |what: &str, ours: f64, hta: f64, tolerance: f64| {
        assert!((ours - hta).abs() <= tolerance + 1e-6, "{what}: {ours} here, {hta} there");
    };
    let times = |name: &str| microseconds(&device["times"][name]);
    same("idle", times("idle_between_ns"), number(&hta["idle"]), tolerance);
    same("compute", times("compute_ns"), number(&hta["compute"]), tolerance);
    let exposed = times("exposed_communication_ns") + times("exposed_memory_ns");
    same("non-compute", exposed, number(&hta["non_compute"]), tolerance);
    for (name, kind) in [
        ("compute_sum_ns", "COMPUTATION"),
        ("communication_sum_ns", "COMMUNICATION"),
        ("memory_sum_ns", "MEMORY"),
    ] {
        // HTA reports overlapping types separately.
        let types = hta["types"].as_object().expect("types").iter();
        let sum: f64 = types.filter(|(it, _)| it.contains(kind)).map(|(_, sum)| number(sum)).sum();
        same(kind, times(name), sum, tolerance);
    }
    let overlap = &device["overlap"][0];
    assert_eq!(overlap["kind"], "communication");
    let hidden = 100.0 * number(&overlap["hidden_ns"]) / number(&overlap["total_ns"]);
    // HTA rounds to two decimals.
    let of_all = 100.0 * tolerance / microseconds(&overlap["total_ns"]);
    same("overlap", hidden, number(&hta["overlap"]), 0.005 + of_all);
    let streams = hta["streams"].as_array().expect("rows");
    assert!(streams.len() >= 8, "three streams, three reasons: {streams:?}");
    for row in streams {
        let stream = device["streams"].as_array().expect("streams").iter();
        let stream = stream.clone().find(|it| it["stream"] == row[0]).expect("the stream");
        let of = |name: &str| microseconds(&stream[name]);
        let ours = match row[1].as_str() {
            Some("host_wait") => of("waiting_for_host_ns") + of("launch_delay_ns"),
            Some("kernel_wait") => of("between_kernels_ns"),
            // HTA does not distinguish the reason for waiting.
            _ => {
                let waits = ["communication", "compute", "memory"];
                let waits = waits.map(|kind| of(&format!("waiting_for_{kind}_ns")));
                of("other_ns") + waits.iter().sum::<f64>()
            }
        };
        // Fractions of a microsecond decide on which side of the threshold a gap is counted.
        let at_threshold = if tolerance > 0.0 { 62.0 } else { 0.0 };
        same(&row.to_string(), ours, number(&row[2]), tolerance + at_threshold);
    }
    let delays: Vec<f64> = hta["delays"].as_array().expect("delays").iter().map(number).collect();
    let launches = &device["launches"];
    assert_eq!(launches["launched"].as_u64(), Some(delays.len() as u64));
    let each = if tolerance > 0.0 { 2.0 } else { 0.0 };
    let middle = delays.len() / 2;
    let below = if delays.len().is_multiple_of(2) { middle - 1 } else { middle };
    let median = f64::midpoint(delays[below], delays[middle]);
    same("median delay", microseconds(&launches["delay_median_ns"]), median, each);
    let most = delays.last().expect("delays");
    same("longest delay", microseconds(&launches["delay_max_ns"]), *most, each);
    if tolerance == 0.0 {
        assert_eq!(launches["shorter_than_call"], hta["short"]);
        for queue in device["queues"].as_array().expect("queues") {
            let stream = queue["stream"].to_string();
            same(&stream, number(&queue["max"]), number(&hta["queues"][&stream]), 0.0);
        }
        let copies = &device["copies"][0];
        assert!(copies["name"].as_str().is_some_and(|name| name.starts_with("Memcpy HtoD")));
        same(
            "bandwidth",
            number(&copies["max_gb_per_s"]),
            number(&hta["bandwidth"]["Memcpy HtoD"]),
            0.0,
        );
    }
}

/// Python script that prints the critical path of the only step: kernels and their durations.
const PATH: &str = r#"
import json, sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_dir=sys.argv[1])
graph, found = analysis.critical_path_analysis(rank=0, annotation="ProfilerStep", instance_id=0)
assert found
edges = graph.get_critical_path_breakdown()
kernels = edges[(edges["type"] == "critical_path_operator") & (edges["stream"] >= 0)]
print(json.dumps({row["s_name"]: int(row["duration"]) for _, row in kernels.iterrows()}))"#;

/// Returns a trace with events. One stream waits for an event of another stream. A thread waits for
/// a single event instead of a whole stream. PyTorch writes such traces with
/// `enable_cuda_sync_events`. Times are in microseconds.
fn trace_with_events() -> String {
    let slice = |category: &str, name: &str, tid: i64, (ts, dur): (u32, u32), args: &str| {
        let pid = if matches!(category, "kernel" | "cuda_sync") { 0 } else { 9 };
        format!(
            r#"{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
        )
    };
    // The call is inside an op that is one microsecond longer at each end.
    let call = |name: &str, (ts, dur): (u32, u32), correlation: u32| {
        let args = format!(r#""External id":{correlation},"correlation":{correlation},"cbid":211"#);
        let op = slice("cpu_op", "aten::op", 9, (ts - 1, dur + 2), "");
        format!("{op},\n{}", slice("cuda_runtime", name, 9, (ts, dur), &args))
    };
    let kernel = |name: &str, stream: i64, place: (u32, u32), correlation: u32| {
        let args =
            format!(r#""device":0,"context":1,"stream":{stream},"correlation":{correlation}"#);
        slice("kernel", name, stream, place, &args)
    };
    // `event` is the stream on which the event was recorded, and the recording call.
    let wait = |name: &str, stream: i64, place: (u32, u32), correlation: u32, event: (i64, i64)| {
        let (on, by) = event;
        let args = format!(
            r#""cuda_sync_kind":"{name}","wait_on_stream":{on},"wait_on_cuda_event_record_corr_id":{by},"wait_on_cuda_event_id":1,"stream":{stream},"correlation":{correlation},"device":0,"context":1"#
        );
        slice("cuda_sync", name, stream, place, &args)
    };
    let events = [
        slice("user_annotation", "ProfilerStep#1", 9, (100, 1000), ""),
        call("cudaLaunchKernel", (110, 5), 1),
        kernel("first", 7, (116, 100), 1),
        call("cudaLaunchKernel", (118, 4), 2),
        kernel("beside it", 8, (123, 40), 2),
        call("cudaEventRecord", (124, 2), 3),
        call("cudaStreamWaitEvent", (128, 2), 4),
        wait("Stream Wait Event", 8, (129, 1), 4, (7, 3)),
        call("cudaLaunchKernel", (132, 4), 5),
        kernel("after the event", 8, (218, 100), 5),
        call("cudaLaunchKernel", (138, 4), 6),
        kernel("nobody waits", 7, (217, 30), 6),
        call("cudaDeviceSynchronize", (150, 172), 7),
        wait("Context Sync", -1, (151, 170), 7, (-1, -1)),
        call("cudaLaunchKernel", (330, 5), 8),
        kernel("waited for", 7, (340, 60), 8),
        call("cudaEventRecord", (337, 1), 9),
        call("cudaLaunchKernel", (341, 4), 10),
        kernel("later", 7, (400, 30), 10),
        call("cudaEventSynchronize", (348, 90), 11),
        wait("Event Sync", -1, (349, 88), 11, (7, 9)),
        slice("cpu_op", "aten::item", 9, (440, 300), ""),
        r#"{"ph":"M","name":"process_labels","pid":0,"tid":0,"ts":0,"args":{"labels":"GPU 0"}}"#
            .to_owned(),
    ];
    format!(
        "{{\"schemaVersion\":1,\n\"distributedInfo\":{{\"rank\": 0}},\n\"deviceProperties\":[{{\"id\":0,\"name\":\"A\"}}],\n\
         \"traceEvents\":[\n{}\n],\"traceName\":\"x\"}}\n",
        events.join(",\n")
    )
}

#[test]
fn critical_paths_go_through_the_same_kernels() {
    let folder = tempfile::tempdir().expect("a folder");
    std::fs::write(folder.path().join("rank0.json"), trace_with_events()).expect("a file");
    let hta = crate::readers::answer(&python::run_with_trace_readers(PATH, &[folder.path()]));
    let ours = analyzed(folder.path());
    let parts = ours["critical_paths"][0]["parts"].as_array().expect("parts").iter();
    let kernels = parts.filter(|part| part["kind"] == "compute").map(|part| {
        let name = part["name"].as_str().expect("kernels have names").to_owned();
        (name, Value::from(part["duration_ns"].as_i64().expect("a time") / 1000))
    });
    assert_eq!(Value::Object(kernels.collect()), hta);
    let expected = serde_json::json!({"first": 100, "after the event": 100, "waited for": 60});
    assert_eq!(hta, expected);
    assert_eq!(ours["critical_paths"][0]["length_ns"], 1_000_000);
}
