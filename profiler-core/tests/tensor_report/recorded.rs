//! Tests of data that is recorded through the hooks and reported as tables and trees.

use std::cell::Cell;
use std::sync::{Arc, Mutex};

use mlprof_core::hook::{
    Context, DType, DeviceActivity, DeviceEvent, Direction, InputsBuilder, Instrumentation,
    MemoryChange, MemoryDevice, OpStart, Timestamp, register,
};
use mlprof_core::report::Report;
use mlprof_core::report::tensor::{KeyAverage, KeyAverages, TableOptions};
use mlprof_core::tensor::{GroupBy, Phase, Schedule};
use mlprof_core::{
    Action, ActionKind, Interest, Observation, Profiler, ProfilerExt, RunContext, Stage,
    TensorProfiler,
};

use crate::rows::find;

fn every_step() -> TensorProfiler {
    let schedule = Schedule::new().wait(0).warmup(0).active(1).repeat(0);
    TensorProfiler::new().schedule(schedule).profile_memory(true)
}

fn matrices(sizes: &[&[i64]]) -> InputsBuilder {
    let mut inputs = InputsBuilder::new();
    sizes.iter().for_each(|sizes| inputs.tensor(DType::Float32, sizes));
    inputs
}

/// Runs `inside` within an op.
fn op(profiler: &TensorProfiler, start: OpStart<'_>, inside: impl FnOnce()) {
    profiler.start_op(&start);
    inside();
    profiler.stop(start.action).expect("was started");
}

fn named<'op>(name: &str) -> OpStart<'op> {
    OpStart::new(Action::op(name))
}

fn allocate(profiler: &TensorProfiler, bytes: i64, device: MemoryDevice) {
    let change = MemoryChange { address: 16, bytes, total_allocated: 0, total_reserved: 0, device };
    profiler.observe(&Observation::Memory(&change));
}

fn kernel(name: &str, correlation: u32, seconds: f64) -> DeviceEvent {
    let start = std::time::Instant::now();
    let action = Action::of_kind(ActionKind::Kernel, name, None);
    let end = Timestamp::at(start + std::time::Duration::from_secs_f64(seconds));
    DeviceEvent { stream: 1, correlation, ..DeviceEvent::new(action, Timestamp::at(start), end) }
}

/// Runs a training step of a model with two layers. Ops named `linear` have operations on one level
/// only.
fn training_step(profiler: &TensorProfiler) {
    let product = matrices(&[&[8], &[4, 16], &[16, 8]]);
    let linear = matrices(&[&[4, 16], &[16, 8], &[8]]);
    let _optimizer = profiler.profile("[LightningModule]Net.optimizer_step");
    {
        let _step = profiler.profile("[Strategy]Single.training_step");
        for (sequence, path) in [(1, "encoder.layer.0"), (2, "encoder.layer.1")] {
            let module = Action::module("Linear", path);
            let _module = profiler.profile(module);
            let mut outer = named("burn::linear");
            outer.inputs = Some(&linear);
            op(profiler, outer, || {
                let mut addmm = named("aten::addmm");
                (addmm.inputs, addmm.sequence, addmm.forward_thread) =
                    (Some(&product), sequence, 7);
                op(profiler, addmm, || allocate(profiler, 128, MemoryDevice::Cpu));
            });
        }
    }
    {
        let _backward = profiler.profile("[Strategy]Single.backward");
        for sequence in [2, 1] {
            let mut node = named("AddmmBackward0");
            (node.sequence, node.forward_thread) = (sequence, 7);
            node.direction = Direction::Backward;
            let inputs = matrices(&[&[16, 4], &[4, 8]]);
            let mut mm = named("aten::mm");
            mm.inputs = Some(&inputs);
            op(profiler, node, || op(profiler, mm, || {}));
        }
    }
    op(profiler, named("aten::_fused_adam_"), || {});
}

/// Runs a fit with this many steps.
fn steps(profiler: &TensorProfiler, count: usize) {
    profiler.setup(Stage::Fit, &RunContext::default());
    for _ in 0..count {
        training_step(profiler);
        profiler.step();
    }
}

#[test]
fn all_cycles_are_in_the_table() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = seen.clone();
    let profiler = every_step().on_trace_ready(move |cycle| {
        let averages = cycle.key_averages(&GroupBy::name());
        sink.lock().expect("no panic").push(find(&averages, "aten::addmm").calls);
    });
    steps(&profiler, 3);
    assert_eq!(*seen.lock().expect("no panic"), [2, 2, 2], "each cycle on its own");
    let averages = profiler.key_averages(&GroupBy::name());
    let calls = |name| find(&averages, name).calls;
    assert_eq!(calls("aten::addmm"), 6);
    assert_eq!(calls("ProfilerStep*"), 3);
    assert!(find(&averages, "ProfilerStep*").is_top_level);
    let row = find(&averages, "[LightningModule]Net.optimizer_step");
    assert!(!row.is_top_level && row.cpu_seconds > row.self_cpu_seconds);
    let rest = row.rest.expect("three calls");
    assert!(rest.min_seconds > 0.0 && rest.min_seconds <= rest.max_seconds);
    let together = row.first_seconds + rest.min_seconds + rest.max_seconds;
    assert!((together - row.cpu_seconds).abs() < 1e-12, "{row:?}");
}

#[test]
fn of_more_cycles_than_are_listed_the_report_knows_how_long_they_took() {
    let profiler = every_step();
    steps(&profiler, 150);
    let report = profiler.snapshot();
    assert_eq!((report.cycles.len(), report.cycle_count), (100, 150));
    let listed: f64 = report.cycles.iter().map(|cycle| cycle.wall_seconds).sum();
    let averages = profiler.key_averages(&GroupBy::name());
    let all = report.recorded_seconds.expect("it says so");
    let in_steps = find(&averages, "ProfilerStep*").cpu_seconds;
    assert!(all > listed && all >= in_steps, "{all} s, {listed} s listed, {in_steps} s in steps");
}

#[test]
fn phases_are_told_by_the_innermost_thing_that_says_so() {
    let profiler = every_step();
    steps(&profiler, 1);
    let averages = profiler.key_averages(&GroupBy::name().phase());
    let phase = |name| find(&averages, name).phase;
    assert_eq!(phase("aten::addmm"), Some(Phase::Forward));
    assert_eq!(phase("aten::mm"), Some(Phase::Backward));
    assert_eq!(phase("AddmmBackward0"), Some(Phase::Backward));
    assert_eq!(phase("aten::_fused_adam_"), Some(Phase::Optimizer));
    assert_eq!(phase("[Strategy]Single.backward"), Some(Phase::Backward));
    assert_eq!(phase("ProfilerStep*"), Some(Phase::Other));
    let table = averages.table(&TableOptions::default());
    assert!(table.contains("Phase") && table.contains("   optimizer  "), "{table}");
}

#[test]
fn rows_are_told_apart_by_shapes_modules_and_stacks() {
    let profiler = every_step();
    steps(&profiler, 2);
    let by_module = profiler.key_averages(&GroupBy::name().module());
    let rows = |averages: &KeyAverages, name: &str| -> Vec<KeyAverage> {
        averages.rows.iter().filter(|row| row.name == name).cloned().collect()
    };
    let modules: Vec<_> = rows(&by_module, "aten::mm").into_iter().map(|row| row.module).collect();
    let expected = ["encoder.layer.1: Linear", "encoder.layer.0: Linear"];
    assert_eq!(modules, expected.map(|name| Some(name.to_owned())), "where forward was");
    let by_stack = profiler.key_averages(&GroupBy::name().stack(2));
    let stacks: Vec<_> = rows(&by_stack, "aten::addmm").into_iter().map(|row| row.stack).collect();
    let module = |path: &str| format!("[module]Linear: {path}");
    let step = "[Strategy]Single.training_step".to_owned();
    let expected =
        ["encoder.layer.0", "encoder.layer.1"].map(|path| vec![module(path), step.clone()]);
    assert_eq!(stacks, expected);
    let by_shapes = profiler.key_averages(&GroupBy::name().input_shapes());
    let table = by_shapes.table(&TableOptions::default());
    assert!(table.contains("[[8], [4, 16], [16, 8]]"), "{table}");
    assert!(find(&by_shapes, "ProfilerStep*").input_shapes.as_ref().is_some_and(Vec::is_empty));
}

#[test]
fn operations_are_counted_on_one_level() {
    let profiler = every_step();
    steps(&profiler, 2);
    let averages = profiler.key_averages(&GroupBy::name());
    assert_eq!(find(&averages, "aten::addmm").flops, 0, "it is inside an op that is counted");
    assert_eq!(find(&averages, "burn::linear").flops, 4 * 2 * 4 * 16 * 8);
    assert_eq!(find(&averages, "aten::mm").flops, 4 * 2 * 16 * 4 * 8);
    assert_eq!(find(&averages, "aten::addmm").moved_bytes, None, "it is inside");
    let of_linear = 4 * (4 * 16 + 16 * 8 + 8 + 4 * 8);
    assert_eq!(find(&averages, "burn::linear").moved_bytes, Some(4 * of_linear));
    assert_eq!(find(&averages, "aten::mm").moved_bytes, Some(4 * 4 * (16 * 4 + 4 * 8 + 16 * 8)));
    assert_eq!(find(&averages, "ProfilerStep*").moved_bytes, None);
}

#[test]
fn modules_are_a_tree_with_both_directions() {
    let profiler = every_step();
    steps(&profiler, 2);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    let [encoder] = &report.modules[..] else { panic!("{:?}", report.modules) };
    assert_eq!(
        (encoder.path.as_str(), encoder.calls, encoder.type_name.as_str()),
        ("encoder", 0, "")
    );
    let [layer] = &encoder.children[..] else { panic!("{encoder:?}") };
    let names: Vec<_> = layer.children.iter().map(|child| child.name.as_str()).collect();
    assert_eq!((layer.path.as_str(), names), ("encoder.layer", vec!["0", "1"]));
    for child in &layer.children {
        assert_eq!((child.calls, child.type_name.as_str()), (2, "Linear"));
        assert_eq!(child.total, child.own);
        assert_eq!(child.own.backward_flops, 2 * 2 * 16 * 4 * 8);
        assert_eq!(child.own.backward_moved_bytes, 2 * 4 * (16 * 4 + 4 * 8 + 16 * 8));
        assert!(child.own.forward_seconds > 0.0 && child.own.backward_seconds > 0.0);
        assert_eq!((child.own.allocated_bytes, child.own.memory_bytes), (256, 256));
    }
    let sum: f64 = layer.children.iter().map(|child| child.total.forward_seconds).sum();
    assert!((encoder.total.forward_seconds - sum).abs() < 1e-12);
    let modules = report.key_averages.rows.iter().filter(|row| row.kind == ActionKind::Module);
    let timed: f64 = modules.map(|row| row.cpu_seconds).sum();
    assert!((timed - sum).abs() < 1e-9, "modules took {timed}, their parts {sum}");
    let text = profiler.summary();
    assert!(text.contains("    0: Linear\n") && text.contains("encoder\n"), "{text}");
}

#[test]
fn memory_is_told_apart_by_device_and_owner() {
    let profiler = every_step();
    profiler.step();
    allocate(&profiler, 1000, MemoryDevice::Cpu);
    op(&profiler, named("aten::outer"), || {
        allocate(&profiler, 300, MemoryDevice::Cpu);
        op(&profiler, named("aten::inner"), || {
            allocate(&profiler, 64, MemoryDevice::Accelerator(1));
            allocate(&profiler, -300, MemoryDevice::Cpu);
        });
    });
    profiler.step();
    let averages = profiler.key_averages(&GroupBy::name());
    let outer = find(&averages, "aten::outer");
    assert_eq!((outer.cpu_memory_bytes, outer.self_cpu_memory_bytes), (0, 300));
    assert_eq!((outer.device_memory_bytes, outer.self_device_memory_bytes), (64, 0));
    let inner = find(&averages, "aten::inner");
    assert_eq!((inner.self_cpu_memory_bytes, inner.self_device_memory_bytes), (-300, 64));
    assert_eq!(inner.memory.len(), 2);
    // This memory is inside the open span of the step.
    assert_eq!(find(&averages, "ProfilerStep*").self_cpu_memory_bytes, 1000);
    assert_eq!(find(&averages, "ProfilerStep*").cpu_memory_bytes, 1000);
    let table = averages.table(&TableOptions::default());
    assert!(table.contains("Self CPU Mem") && table.contains("Self Device Mem"), "{table}");
}

#[test]
fn memory_without_any_scope_has_a_row_of_its_own() {
    let profiler = TensorProfiler::new().without_schedule().profile_memory(true);
    profiler.setup(Stage::Fit, &RunContext::default());
    allocate(&profiler, 7, MemoryDevice::Cpu);
    op(&profiler, named("aten::empty"), || allocate(&profiler, 10, MemoryDevice::Cpu));
    allocate(&profiler, -5, MemoryDevice::Cpu);
    profiler.teardown(Some(Stage::Fit));
    let averages = profiler.key_averages(&GroupBy::name());
    let row = find(&averages, "[memory]");
    assert_eq!((row.calls, row.self_cpu_memory_bytes, row.cpu_seconds), (2, 2, 0.0));
    assert_eq!(find(&averages, "aten::empty").cpu_memory_bytes, 10);
}

#[test]
fn device_time_belongs_to_the_op_around_the_launch() {
    let profiler = every_step();
    let launch =
        |number| OpStart::launch(Action::of_kind(ActionKind::Launch, "launch", None), number);
    profiler.step();
    op(&profiler, named("aten::outer"), || {
        op(&profiler, named("aten::mm"), || op(&profiler, launch(5), || {}));
        op(&profiler, launch(6), || {});
    });
    profiler.observe(&Observation::DeviceEvent(&kernel("gemm", 5, 0.002)));
    profiler.observe(&Observation::DeviceEvent(&kernel("copy", 6, 0.001)));
    profiler.observe(&Observation::DeviceEvent(&kernel("lost", 99, 0.004)));
    let tuning = DeviceEvent { activity: DeviceActivity::Tuning, ..kernel("gemm", 5, 7.0) };
    profiler.observe(&Observation::DeviceEvent(&tuning));
    profiler.step();
    let averages = profiler.key_averages(&GroupBy::name());
    let close = |row: &KeyAverage, own: f64, total: f64| {
        let apart = (row.self_device_seconds - own).abs() + (row.device_seconds - total).abs();
        assert!(apart < 1e-5, "{own} and {total} in {row:?}");
    };
    close(find(&averages, "aten::mm"), 0.002, 0.002);
    close(find(&averages, "aten::outer"), 0.001, 0.003);
    close(find(&averages, "ProfilerStep*"), 0.0, 0.003);
    close(find(&averages, "launch"), 0.0, 0.0);
    let gemm = find(&averages, "gemm");
    close(gemm, 0.002, 0.002);
    assert!(gemm.is_on_device && gemm.cpu_seconds == 0.0 && gemm.calls == 1);
    let text = profiler.summary();
    let total = text.lines().find_map(|line| line.strip_prefix("Self Device time total: "));
    let total = total.and_then(|total| total.strip_suffix("ms")?.parse::<f64>().ok());
    assert!(total.is_some_and(|total| (total - 7.0).abs() < 0.01), "{text}");
    let first = text.lines().skip_while(|line| !line.contains("# of Calls")).nth(2);
    assert!(first.is_some_and(|row| row.contains("lost")), "most device time first: {text}");
    assert!(text.contains("Compiling and tuning kernels: 1 time, 7.00 s"), "{text}");
    assert!(text.contains("1 kernel has device time but no known op"), "{text}");
}

thread_local!(static LATEST: Cell<Option<Context>> = const { Cell::new(None) });

/// Hook of a framework that works on another thread.
struct ContextKeeper;

impl Instrumentation for ContextKeeper {
    fn interest_changed(&self, _interest: Interest) {}

    fn wants_context(&self) -> bool {
        true
    }

    fn context_changed(&self, context: Context) {
        LATEST.set(Some(context));
    }
}

#[test]
fn work_on_another_thread_hangs_below_what_called_it() {
    let _registered = register(Arc::new(ContextKeeper));
    let profiler = every_step();
    profiler.step();
    let training = profiler.profile("[Strategy]Single.training_step");
    let module = profiler.profile(Action::module("Linear", "head"));
    let context = LATEST.get().expect("something is open");
    drop(module);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            let mut start = named("burn::matmul");
            start.context = Some(context);
            op(&profiler, start, || {
                op(&profiler, named("burn::inner"), || {});
            });
        });
    });
    drop(training);
    profiler.step();
    let averages = profiler.key_averages(&GroupBy::name().stack(2).module().phase());
    for name in ["burn::matmul", "burn::inner"] {
        let row = find(&averages, name);
        assert_eq!(row.stack, ["[module]Linear: head", "[Strategy]Single.training_step"], "{name}");
        assert_eq!(row.module.as_deref(), Some("head: Linear"));
        assert_eq!(row.phase, Some(Phase::Forward));
    }
    let matmul = find(&averages, "burn::matmul");
    assert!(matmul.cpu_seconds > matmul.self_cpu_seconds);
    let by_name = profiler.key_averages(&GroupBy::name());
    let module = find(&by_name, "[module]Linear: head");
    assert_eq!(
        module.cpu_seconds, module.self_cpu_seconds,
        "the other thread's time is not its own"
    );
}

#[test]
fn a_report_with_device_time_and_operations_fits_a_terminal() {
    let profiler = every_step().profile_memory(false);
    profiler.setup(Stage::Fit, &RunContext::default());
    let launch = OpStart::launch(Action::of_kind(ActionKind::Launch, "launch", None), 8);
    let inputs = matrices(&[&[2, 3], &[3, 4]]);
    let mut product = named("aten::mm");
    product.inputs = Some(&inputs);
    let _step = profiler.profile("[Strategy]SingleDeviceStrategy.training_step of a long name");
    op(&profiler, product, || op(&profiler, launch, || {}));
    drop(_step);
    profiler.observe(&Observation::DeviceEvent(&kernel(&"long_kernel_name".repeat(9), 8, 0.001)));
    profiler.step();
    let text = profiler.summary();
    assert!(text.contains("Device time avg") && text.contains("Total FLOPs"), "{text}");
    assert!(text.contains("long_kernel_namelong_kernel_n..."), "{text}");
    // Titles are the same as in torch, and some are longer than their columns.
    let lines = text.lines().filter(|line| !line.contains("# of Calls"));
    let widest = lines.map(|line| line.trim_end().chars().count()).max();
    assert_eq!(widest, Some(200), "{text}");
}

#[test]
fn the_values_survive_json() {
    let profiler = every_step();
    steps(&profiler, 2);
    profiler.teardown(Some(Stage::Fit));
    let report = profiler.report().expect("a report");
    let json = report.to_json().expect("JSON");
    assert_eq!(Report::from_json(&json).expect("the same"), report);
    let value: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!(value["profiler"], "tensor");
    assert_eq!(value["header"]["stage"], "fit");
    assert_eq!((&value["steps"], &value["recorded_steps"]), (&2.into(), &2.into()));
    let rows = value["key_averages"]["rows"].as_array().expect("rows");
    assert!(rows.iter().any(|row| row["name"] == "aten::addmm" && row["calls"] == 4));
}

/// Groups ops by name in the table, and by all recorded keys otherwise. The sums must be equal.
#[test]
fn ops_are_told_apart_by_all_that_was_recorded_too() {
    let profiler = every_step();
    for _ in 0..3 {
        for (module, rows) in [("conv1", 4), ("conv2", 8)] {
            let _module = profiler.profile(Action::module("Conv2d", module));
            let inputs = matrices(&[&[rows, 2], &[2, 3]]);
            op(&profiler, OpStart { inputs: Some(&inputs), ..named("aten::mm") }, || {});
        }
        profiler.step();
    }
    let report = profiler.snapshot();
    let by_name = find(&report.key_averages, "aten::mm");
    let finest: Vec<_> = report.finest_rows.iter().filter(|row| row.name == "aten::mm").collect();
    let told: Vec<_> =
        finest.iter().map(|row| (row.module.as_str(), row.shapes.as_str(), row.calls)).collect();
    let expected =
        [("conv1: Conv2d", "[[4, 2], [2, 3]]", 3), ("conv2: Conv2d", "[[8, 2], [2, 3]]", 3)];
    assert_eq!(told, expected);
    assert_eq!(finest.iter().map(|row| row.calls).sum::<u64>(), by_name.calls);
    let own: f64 = finest.iter().map(|row| row.self_cpu_seconds).sum();
    assert!((own / by_name.self_cpu_seconds - 1.0).abs() < 1e-9);
    let told_apart =
        every_step().group_by_input_shapes(true).group_by_module(true).group_by_phase(true);
    op(&told_apart, named("aten::mm"), || {});
    told_apart.step();
    assert!(told_apart.snapshot().finest_rows.is_empty(), "the table says it already");
}

/// Covers a validation within a step, and one between two steps.
#[test]
fn a_step_that_is_interrupted_is_one_step_and_pauses_are_not_recorded() {
    const PAUSE: std::time::Duration = std::time::Duration::from_millis(30);
    let schedule = Schedule::new().wait(0).warmup(0).active(3).repeat(1);
    let folder = tempfile::tempdir().expect("a folder");
    let trace = folder.path().join("trace.json");
    let file = trace.clone();
    let profiler = TensorProfiler::new().schedule(schedule);
    let profiler = profiler.on_trace_ready(move |cycle| {
        cycle.export_chrome_trace(&file).expect("written");
    });
    let validate = || {
        profiler.setup(Stage::Validate, &RunContext::default());
        std::thread::sleep(PAUSE);
        profiler.teardown(Some(Stage::Validate));
    };
    let began = std::time::Instant::now();
    profiler.setup(Stage::Fit, &RunContext::default());
    op(&profiler, named("aten::a"), || {});
    validate();
    op(&profiler, named("aten::b"), || {});
    profiler.step();
    validate();
    op(&profiler, named("aten::a"), || {});
    profiler.step();
    op(&profiler, named("aten::a"), || {});
    profiler.step();
    let took = began.elapsed().as_secs_f64();
    let averages = profiler.key_averages(&GroupBy::name());
    let report = profiler.snapshot();
    let row = find(&averages, "ProfilerStep*");
    assert_eq!((row.calls, report.recorded_steps, report.cycle_count), (3, 3, 1));
    let recorded = report.recorded_seconds.expect("it says so");
    assert!(recorded >= row.cpu_seconds - 1e-9, "{recorded} s, {} s in steps", row.cpu_seconds);
    let paused = 2.0 * PAUSE.as_secs_f64();
    assert!(recorded <= took - paused, "{recorded} s of {took} s, of which {paused} s paused");
    assert_eq!(report.cycles[0].wall_seconds, recorded);
    let [series] = &report.step_series[..] else { panic!("{:?}", report.step_series) };
    let first = series.entries[0].seconds;
    assert!((first - row.first_seconds).abs() < 1e-6, "{first} s, {row:?}");
    let trace = std::fs::read(trace).expect("a trace");
    let trace: serde_json::Value = serde_json::from_slice(&trace).expect("JSON");
    let pauses = trace["mlprof"]["pauses"].as_array().expect("it says when it paused");
    let length = |pause: &serde_json::Value| {
        pause["until"].as_f64().expect("µs") - pause["ts"].as_f64().expect("µs")
    };
    assert_eq!(pauses.len(), 2);
    assert!(pauses.iter().all(|pause| length(pause) >= PAUSE.as_secs_f64() * 1e6), "{pauses:?}");
}
