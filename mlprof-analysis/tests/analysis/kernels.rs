//! Tests of kernels by name and by category, launches, and copies. Times are in microseconds.

use mlprof_analysis::{Analysis, DeviceAnswers, KernelCategory, KernelTimes, kineto};

use crate::synthetic::{MAIN, OTHER, STREAM, action, analysis, call, op, slice, with, work};

fn case(name: &str) -> DeviceAnswers {
    let path = format!("{}/tests/cases/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let file = std::fs::File::open(&path).expect("a case");
    let analysis = Analysis::of(&kineto::read(file).expect("a trace"));
    analysis.devices.into_iter().next().expect("a device")
}

const GEMM: &str = "void cutlass::Kernel2<cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_tn>\
                    (cutlass_80_tensorop_bf16_s16816gemm_relu_bf16_64x64_tn::Params)";
const ADD: &str = "void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add\
                   <float>, std::array<char*, 3ul> >(int, at::native::CUDAFunctor_add<float>)";

/// Returns the events of two model layers, each with a matrix product and an addition, followed by
/// an all-reduce with an unknown launch.
fn layers() -> Vec<String> {
    let mut events = vec![action("ProfilerStep#1", 0.0, 400.0)];
    for layer in 0..2_u32 {
        let (at, first) = (f64::from(layer) * 100.0, 2 * layer + 1);
        events.extend([
            action(&format!("[module]Linear: fc{layer}"), at, 50.0),
            op("aten::addmm", at + 1.0, 20.0),
            call("cudaLaunchKernel", at + 2.0, 5.0, first),
            op(if layer == 0 { "aten::add" } else { "aten::add_" }, at + 30.0, 10.0),
            call("cudaLaunchKernel", at + 31.0, 5.0, first + 1),
            work("kernel", GEMM, at + 40.0, 30.0 + f64::from(layer), first),
            work("kernel", ADD, at + 80.0, 10.0, first + 1),
        ]);
    }
    events.push(slice((0, 20), "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", 300.0, 19.0));
    events.push(work("gpu_memset", "Memset (Device)", 340.0, 0.0, 0));
    events
}

#[test]
fn kernels_are_listed_by_name_and_category() {
    let analysis = analysis(&layers());
    let device = &analysis.devices[0];
    let names: Vec<_> = device.kernels.iter().map(|row| (row.name.as_str(), row.calls)).collect();
    let nccl = "ncclDevKernel_AllReduce_Sum_f32_RING_LL";
    assert_eq!(names, [(GEMM, 2), (ADD, 2), (nccl, 1), ("Memset (Device)", 1)]);
    let [gemm, add, all_reduce, _] = &device.kernels[..] else { panic!("{names:?}") };
    let times = |row: &KernelTimes| (row.total_ns, row.mean_ns, row.min_ns, row.max_ns);
    assert_eq!(times(gemm), (61_000, 30_500, 30_000, 31_000));
    assert!((gemm.busy_share - 0.61).abs() < 1e-12, "{gemm:?}");
    // The kernel of the second layer took longer.
    let launched = (gemm.op.as_deref(), gemm.ops, gemm.module.as_deref(), gemm.modules);
    assert_eq!(launched, (Some("aten::addmm"), 1, Some("[module]Linear: fc1"), 2));
    assert_eq!((add.op.as_deref(), add.ops), (Some("aten::add"), 2));
    assert_eq!((all_reduce.op.as_deref(), all_reduce.module.as_deref()), (None, None));
    let categories: Vec<_> =
        device.categories.iter().map(|row| (row.category, row.calls, row.total_ns)).collect();
    let expected = [
        (KernelCategory::Gemm, 2, 61_000),
        (KernelCategory::Elementwise, 2, 20_000),
        (KernelCategory::Communication, 1, 19_000),
        (KernelCategory::Memset, 1, 0),
    ];
    assert_eq!(categories, expected);
}

#[test]
fn kernels_come_first_in_a_devices_text_and_no_line_is_longer_than_a_page() {
    let mut events = layers();
    // The events contain a sequence of many kernels twice.
    for round in 0..2_u32 {
        let at = 200.0 + 40.0 * f64::from(round);
        events.push(op("aten::many", at, 40.0));
        for number in 0..30_u32 {
            let (correlation, at) = (100 * (round + 1) + number, at + f64::from(number));
            events.push(call("cudaLaunchKernel", at, 0.5, correlation));
            events.push(work("kernel", &format!("{ADD}{number}"), at + 0.6, 0.1, correlation));
        }
    }
    let path = "/very/long/path".repeat(20);
    events.push(slice(OTHER, "python_function", &format!("{path}.py(12): f"), 0.0, 10.0));
    let text = analysis(&events).text(1_000);
    let device = text.find("\nDevice 0: ").expect("a device");
    assert!(text[device..].starts_with("\nDevice 0: kernels by category"), "{text}");
    let gemm = |line: &&str| line.contains("GEMM") && line.contains("aten::addmm");
    let line = text.lines().find(gemm).unwrap_or_else(|| panic!("{text}"));
    assert!(line.contains("  cutlass::Kernel2<cutlass_80_tensorop_"), "{text}");
    assert!(text.contains(" more\n") && text.contains("aten::many: "), "{text}");
    for line in text.lines() {
        assert!(line.chars().count() <= 120, "{line}");
    }
}

#[test]
fn a_graphs_launch_is_one_call() {
    let launches = case("graph-of-twenty-kernels").launches;
    assert_eq!((launches.calls, launches.launched), (1, 20));
    let long = (launches.shorter_than_call, launches.long_calls, launches.long_delays);
    assert_eq!(long, (0, 1, 0));
    let delays = (launches.delay_median_ns, launches.delay_p90_ns, launches.delay_max_ns);
    assert_eq!(delays, (30_000, 30_000, 30_000));
    let launches = case("graph").launches;
    assert_eq!((launches.calls, launches.launched, launches.delay_max_ns), (1, 5, 30_000));
    let long = (launches.shorter_than_call, launches.long_calls, launches.long_delays);
    assert_eq!(long, (0, 1, 0));
}

#[test]
fn quantiles_of_delays_are_interpolated() {
    // The delays are 60, 210, 420, 480 and 1,200 µs.
    let launches = case("three-streams").launches;
    assert_eq!((launches.calls, launches.launched, launches.long_delays), (5, 5, 4));
    let delays = (launches.delay_median_ns, launches.delay_p90_ns, launches.delay_max_ns);
    assert_eq!(delays, (420_000, 912_000, 1_200_000));
    // The median of two values is their mean.
    let events = [
        call("cudaLaunchKernel", 0.0, 10.0, 1),
        call("cudaLaunchKernel", 10.0, 10.0, 2),
        work("kernel", "k", 12.0, 5.0, 1),
        work("kernel", "k", 24.0, 5.0, 2),
    ];
    assert_eq!(analysis(&events).devices[0].launches.delay_median_ns, 3_000);
}

#[test]
fn rates_are_of_copies_with_a_size_and_a_duration() {
    let device = case("copies");
    let row = |name: &str| {
        let row = device.copies.iter().find(|row| row.name.starts_with(name)).expect("copies");
        (row.count, row.unknown, row.bytes, row.busy_ns)
    };
    assert_eq!(row("Memset"), (2, 0, Some(1_004_096), 30_000));
    assert_eq!(row("Memcpy HtoD"), (3, 0, Some(5_500_000), 900_000));
    let memset = device.copies.iter().find(|row| row.name.starts_with("Memset")).expect("a fill");
    // The other fill has no duration, so its 4,096 bytes do not count.
    let rate = memset.mean_gb_per_s.expect("a rate");
    assert!((rate - 1e6 / 30e3).abs() < 1e-9, "{rate}");
    let copy = |args: &str, ts: f64| with(STREAM, "gpu_memcpy", "Memcpy DtoD", (ts, 10.0), args);
    let fill = with(STREAM, "gpu_memset", "Memset", (60.0, 10.0), "{}");
    let answers = analysis(&[copy(r#"{"bytes":20000}"#, 0.0), copy("{}", 20.0), fill]);
    let [copies, fills] = &answers.devices[0].copies[..] else { panic!("{:?}", answers.devices) };
    assert_eq!((copies.count, copies.unknown, copies.bytes), (2, 1, Some(20_000)));
    // The copy without a size does not lower the rate.
    assert_eq!((copies.busy_ns, copies.mean_gb_per_s), (20_000, Some(2.0)));
    assert_eq!((fills.bytes, fills.mean_gb_per_s, fills.max_gb_per_s), (None, None, None));
    let text = answers.text(10);
    assert!(text.contains("unknown") && !text.contains(" 0 B"), "{text}");
}

#[test]
fn communication_ends_a_sequence() {
    let mut events = Vec::new();
    for round in 0..3_u32 {
        let (ts, first) = (f64::from(round) * 100.0, round * 3 + 1);
        events.extend([
            op("AccumulateGrad", ts, 60.0),
            call("cudaLaunchKernel", ts + 2.0, 5.0, first),
            call("cudaLaunchKernel", ts + 10.0, 5.0, first + 1),
            call("cudaLaunchKernel", ts + 20.0, 5.0, first + 2),
            work("kernel", "mul", ts + 40.0, 1.0, first),
            work("kernel", "ncclDevKernel_Generic(x)", ts + 50.0, 30.0, first + 1),
            work("kernel", "div", ts + 85.0, 1.0, first + 2),
        ]);
    }
    let sequences = &analysis(&events).devices[0].sequences;
    assert!(sequences.is_empty(), "{sequences:?}");
}

#[test]
fn work_of_before_the_trace_is_counted_apart() {
    let events = [
        work("kernel", "old", 0.0, 10.0, 99),
        work("kernel", "old", 10.0, 10.0, 98),
        call("cudaLaunchKernel", 5.0, 5.0, 1),
        work("kernel", "own", 25.0, 10.0, 1),
        // The launch call of this kernel was not recorded.
        work("kernel", "lost", 40.0, 10.0, 97),
    ];
    let analysis = analysis(&events);
    let launches = &analysis.devices[0].launches;
    assert_eq!((launches.launched, launches.unknown, launches.before_trace), (1, 3, 2));
    assert_eq!(launches.before_trace_ns, 20_000);
    let text = analysis.text(10);
    let expected =
        "(2 more were launched before the trace and ran for 20.0 µs) (1 more have unknown calls)";
    assert!(text.contains(expected), "{text}");
    // In a trace without calls, no work is attributed to the time before the trace.
    let events = [work("kernel", "k", 0.0, 10.0, 99), work("kernel", "k", 10.0, 10.0, 98)];
    let launches = &crate::synthetic::analysis(&events).devices[0].launches;
    assert_eq!((launches.unknown, launches.before_trace), (2, 0));
}

/// Returns an op, its launch call, and a kernel with the op's name. The op runs from `ts` for 4 µs.
fn launching(name: &str, ts: f64, correlation: u32, args: &str) -> [String; 3] {
    let arguments = format!(r#"{{"correlation":{correlation}}}"#);
    [
        with(OTHER, "cpu_op", name, (ts, 4.0), args),
        with(OTHER, "cuda_runtime", "cudaLaunchKernel", (ts + 1.0, 1.0), &arguments),
        work("kernel", name, ts + 100.0, 10.0, correlation),
    ]
}

#[test]
fn forward_ops_that_run_again_in_backward_are_marked() {
    let numbered = r#"{"Sequence number":7}"#;
    let backward = |name: &str, ts: f64, dur: f64| {
        let evaluation = format!("autograd::engine::evaluate_function: {name}");
        [
            with(OTHER, "cpu_op", &evaluation, (ts, dur), numbered),
            with(OTHER, "cpu_op", name, (ts + 0.1, dur - 0.2), numbered),
        ]
    };
    let mut events = vec![slice(MAIN, "cpu_op", "aten::forward", 0.0, 5.0)];
    // This op has a sequence number but is not within backward.
    events.extend(launching("forward", 0.0, 1, numbered));
    // The first backward function recomputes the saved tensors of a checkpoint.
    events.extend(backward("MmBackward0", 10.0, 20.0));
    events.extend(launching("again", 11.0, 2, numbered));
    events.extend(launching("gradient", 20.0, 3, "{}"));
    // The older, reentrant checkpointing has a function of its own, within which backward runs.
    events.extend(backward("CheckpointFunctionBackward", 40.0, 20.0));
    events.extend(launching("reentrant", 41.0, 4, "{}"));
    events.extend(backward("AddBackward0", 50.0, 8.0));
    events.extend(launching("inner gradient", 51.0, 5, "{}"));
    // Python frames also identify recomputed ops without gradients.
    events.extend(backward("MulBackward0", 70.0, 20.0));
    let frame = "torch/utils/checkpoint.py(1124): unpack_hook";
    events.push(slice(OTHER, "python_function", frame, 71.0, 8.0));
    events.extend(launching("mask", 72.0, 6, "{}"));
    let analysis = analysis(&events);
    let device = &analysis.devices[0];
    let again = device.kernels.iter().filter(|row| row.recomputed_ns == row.total_ns);
    let mut again: Vec<_> = again.map(|row| row.name.as_str()).collect();
    again.sort_unstable();
    assert_eq!(again, ["again", "mask", "reentrant"]);
    let sum: i64 = device.categories.iter().map(|row| row.recomputed_ns).sum();
    assert_eq!(sum, 30_000);
    let text = analysis.text(10);
    assert!(
        text.contains("recomputed in backward took 30.0 µs, 50.00 % of the kernel time."),
        "{text}"
    );
}

#[test]
fn batches_of_a_server_are_its_steps() {
    let batches = |names: [&str; 3]| {
        let mut events = vec![slice(OTHER, "cpu_op", "aten::other", 0.0, 5.0)];
        for (place, name) in (0..3_u32).zip(names) {
            let at = 10.0 + 100.0 * f64::from(place);
            events.push(action(name, at, 50.0));
            // A slice nested in a batch is not a batch.
            events.push(action("execute_model", at + 5.0, 20.0));
            events.push(call("cudaLaunchKernel", at + 10.0, 5.0, place + 1));
            events.push(work("kernel", "k", at + 40.0, 60.0, place + 1));
        }
        analysis(&events)
    };
    for names in [
        ["execute_context_1(888_7)_generation_0(0)", "execute_new_3_cached_5", "execute_model"],
        ["step[EXTEND bs=1 toks=128]", "step[DECODE bs=32]", "step[DECODE bs=32]"],
    ] {
        let analysis = batches(names);
        let steps: Vec<_> =
            analysis.steps.iter().map(|step| (step.number, step.duration_ns)).collect();
        assert_eq!(steps, [(Some(0), 50_000), (Some(1), 50_000), (Some(2), 50_000)]);
        // The device continues to work after a batch has returned.
        assert_eq!(analysis.devices[0].times.window_ns, 310_000);
        assert_eq!(analysis.devices[0].times.compute_ns, 180_000);
        assert!(analysis.notes.iter().any(|note| note.contains("batches")), "{:?}", analysis.notes);
    }
    // In a trace with steps, batches are ordinary actions.
    let events = [action("ProfilerStep#7", 0.0, 100.0), action("execute_model", 10.0, 50.0)];
    let analysis = analysis(&events);
    let numbers: Vec<_> = analysis.steps.iter().map(|step| step.number).collect();
    assert_eq!((numbers.as_slice(), analysis.notes.len()), ([Some(7)].as_slice(), 0));
}

#[test]
fn terms_are_those_of_the_vendor() {
    for (launch, category, graphs) in [
        ("cudaGraphLaunch", "cuda_runtime  cudaGraphLaunch", "CUDA graphs"),
        ("hipGraphLaunch", "hip_runtime  hipGraphLaunch", "HIP graphs"),
    ] {
        let events = [
            call(launch, 0.0, 5.0, 1),
            work("kernel", "a", 12.0, 5.0, 1),
            work("kernel", "b", 18.0, 5.0, 1),
        ];
        let text = analysis(&events).text(10);
        assert!(text.contains(category) && text.contains(graphs), "{text}");
    }
}
