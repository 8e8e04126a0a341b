//! Reports for the pages under test.

use mlprof_core::hook::{MemoryCategory, MemoryDevice};
use mlprof_core::report::advanced::FunctionKeyParts;
use mlprof_core::report::finding::{
    Confidence, Cost, CostParts, Evidence, Finding, FindingParts, Place,
};
use mlprof_core::report::memory::{MemoryTree, PathMemory};
use mlprof_core::report::simple::{ActionStatistics, ActionStatisticsParts};
use mlprof_core::report::steps::{
    SlowestAction, StepEntry, StepEntryParts, StepSeries, StepSeriesParts,
};
use mlprof_core::report::tensor::memory_over_time::{
    CategoryOverTime, MemoryPeak, MemoryStep, PeakMemory,
};
use mlprof_core::report::tensor::{
    DeviceIdle, FinestRow, IdleGaps, KeyAverage, KeyAverageParts, KeyAverages, KeyAveragesParts,
    MemoryOverTime, ModuleCost, ModuleStatistics, finest_rows,
};
use mlprof_core::report::{AdvancedReport, MemoryReport};
use mlprof_core::tensor::Phase;
use mlprof_core::{Report, Stage};
use serde_json::Value;

/// Reports of all kinds with all optional parts.
const EVERYTHING: &str = include_str!("../../mlprof/tests/report_and_convert/schema/1.json");

/// Returns reports of all kinds, with a second rank and enough ops for the search.
pub fn everything() -> Vec<Report> {
    let mut reports: Vec<Report> = serde_json::from_str(EVERYTHING).expect("reports");
    let mut other = reports[0].clone();
    let own = other.header().rank;
    other.header_mut().rank = own + 1;
    reports.insert(1, other);
    reports[0] = reports[0].clone().with_findings(vec![finding()]);
    for report in &mut reports {
        match report {
            Report::Simple(report) => {
                report.step_series = vec![steps(), validations()];
                nest(&mut report.actions);
            }
            Report::Tensor(report) => {
                report.step_series = vec![steps()];
                report.memory_over_time = vec![memory()];
                report.device_idle = vec![idle(None), idle(Some(7)), idle(Some(8))];
                let rows = &mut report.key_averages.rows;
                let first = rows[0].clone();
                report.modules = vec![module(
                    "net",
                    3.0,
                    vec![module("conv1", 1.0, Vec::new()), module("conv2", 2.0, Vec::new())],
                )];
                rows.extend((1..60).map(|index| {
                    let mut row = first.clone();
                    row.name = format!("aten::op_{index}");
                    row.calls = index;
                    row.self_cpu_seconds = index as f64 * 1e-5;
                    row
                }));
                report.finest_rows = report.key_averages.rows.iter().flat_map(halves).collect();
            }
            Report::Advanced(report) => deepen(report),
            Report::Memory(report) => allocate(report),
            _ => {}
        }
    }
    reports
}

/// Returns reports with 50 ops below 0.1 % of the time, and one op with a long name.
pub fn small_rows() -> Vec<Report> {
    let mut reports = everything();
    for report in &mut reports {
        let Report::Tensor(report) = report else { continue };
        for row in &mut report.key_averages.rows {
            let number = row.name.strip_prefix("aten::op_").and_then(|it| it.parse::<u64>().ok());
            let is_small = number.is_some_and(|number| number >= 10);
            row.self_cpu_seconds = if is_small { 1e-9 } else { 0.01 };
            row.self_device_seconds = 0.0;
        }
        report.key_averages.rows[0].name = "void cutlass::Kernel<f16>(cutlass_80_tensorop_f16_\
             s16816gemm_relu_f16_256x128_64x3_nn_align8::Params)"
            .to_owned();
    }
    reports
}

/// Adds activations of two layers at the peak. One mebibyte of them is never freed.
fn allocate(report: &mut MemoryReport) {
    const MIB: u64 = 1 << 20;
    let path = |action: &str, own_bytes: u64, inside: Vec<PathMemory>| PathMemory {
        action: action.to_owned(),
        bytes: own_bytes + inside.iter().map(|path| path.bytes).sum::<u64>(),
        blocks: 4 + inside.iter().map(|path| path.blocks).sum::<u64>(),
        own_bytes,
        own_blocks: 4,
        inside,
    };
    let tree = |layers: Vec<PathMemory>| MemoryTree {
        process_bytes: Some(64 * MIB as i64),
        least_block_bytes: 4096,
        blocks: path("", 0, vec![path("training_step", 2 * MIB, layers)]),
    };
    report.peak =
        tree(vec![path("conv2", 30 * MIB, Vec::new()), path("conv1", 16 * MIB, Vec::new())]);
    report.alive = tree(vec![path("history", MIB, Vec::new())]);
    report.process.peak_bytes = 64 * MIB as i64;
    report.process.live_bytes = 19 * MIB as i64;
    report.process.total.allocated_bytes = 900 * MIB;
    report.process.total.allocated_blocks = 120_000;
}

/// Returns two ranks of one run. The second rank waits three seconds longer for its data, and the
/// first one waits for the second.
pub fn ranks() -> Vec<Report> {
    let Some(Report::Simple(any)) = everything().into_iter().next() else {
        panic!("a Simple report comes first")
    };
    let first = any.actions[0].clone();
    let row = |action: &str, total_seconds| {
        ActionStatisticsParts {
            action: action.to_owned(),
            sub_stage: None,
            inside: None,
            total_seconds,
            ..first.clone().into()
        }
        .build()
    };
    let rank = |number: u32, loading| {
        let mut report = any.clone();
        report.header.stage = Some(Stage::Fit);
        (report.header.rank, report.header.world_size) = (number, 2);
        report.header.wall_seconds = 10.0;
        report.actions = vec![
            row("run_training_epoch", 10.0),
            row("[_TrainingEpochLoop].train_dataloader_next", loading),
            row("all_reduce_gradients", 5.0 - loading),
        ];
        (report.step_series, report.findings) = (Vec::new(), Vec::new());
        Report::Simple(report)
    };
    vec![rank(0, 0.5), rank(1, 3.5)]
}

/// Splits a row into two halves in different modules, one forward and one backward.
fn halves(row: &KeyAverage) -> [FinestRow; 2] {
    [("conv1: Conv2d", Phase::Forward, 0), ("conv2: Conv2d", Phase::Backward, 1)].map(
        |(module, phase, rest)| {
            let mut half =
                KeyAverageParts { module: Some(module.to_owned()), ..row.clone().into() }.build();
            half.phase = Some(phase);
            half.calls = (row.calls + rest) / 2;
            half.self_cpu_seconds /= 2.0;
            finest_rows(
                &KeyAveragesParts { rows: vec![half], ..KeyAverages::default().into() }.build(),
            )
            .remove(0)
        },
    )
}

/// Adds nested rows: an epoch, its batches with their steps, and a checkpoint between them.
fn nest(actions: &mut Vec<ActionStatistics>) {
    let first = actions[0].clone();
    let levels = [
        ("epoch", None, 10.0),
        ("batch", Some("epoch"), 7.0),
        ("loss", Some("step"), 2.0),
        ("step", Some("batch"), 6.0),
        ("backward", Some("step"), 3.0),
        ("save", Some("epoch"), 1.0),
        ("zero", Some("batch"), 0.5),
    ];
    actions.extend(levels.map(|(name, inside, total_seconds)| {
        ActionStatisticsParts {
            action: name.to_owned(),
            inside: inside.map(str::to_owned),
            sub_stage: None,
            total_seconds,
            ..first.clone().into()
        }
        .build()
    }));
}

/// Returns a timeline with sixty points. The peak is at 40 ms, with 40 KiB of activations and 16
/// KiB of parameters.
fn memory() -> MemoryOverTime {
    const KIB: u64 = 1024;
    let category = |category, at: fn(u64) -> u64| CategoryOverTime {
        category,
        at_peak_bytes: at(40) * KIB,
        at_end_bytes: at(59) * KIB,
        bytes: (0..60).map(|moment| at(moment) * KIB).collect(),
    };
    let row = |category, op: Option<&str>, bytes| PeakMemory {
        category,
        op: op.map(str::to_owned),
        inside: op.map(|_| "conv1".to_owned()),
        is_from_before: op.is_none(),
        allocations: 3,
        bytes,
    };
    MemoryOverTime {
        device: MemoryDevice::Cpu,
        cycle: 0,
        duration_seconds: 0.06,
        before_bytes: 16 * KIB,
        allocations: 100,
        allocated_bytes: 1000 * KIB,
        dropped: 0,
        steps: (0..3)
            .map(|number| MemoryStep { number, start_seconds: 0.02 * number as f64 })
            .collect(),
        times_seconds: (0..60).map(|moment| moment as f64 * 1e-3).collect(),
        categories: vec![
            category(MemoryCategory::Parameter, |_| 16),
            category(MemoryCategory::Activation, |moment| match moment {
                40 => 40,
                moment => moment % 20,
            }),
            category(MemoryCategory::Temporary, |moment| moment % 3),
        ],
        peak: MemoryPeak {
            time_seconds: 0.04,
            step: Some(2),
            bytes: 57 * KIB,
            rows: vec![
                row(MemoryCategory::Activation, Some("aten::conv2d"), 30 * KIB),
                row(MemoryCategory::Parameter, None, 16 * KIB),
            ],
            others_allocations: 4,
            others_bytes: 11 * KIB,
        },
    }
}

/// Returns a device that is busy for a quarter of a second.
fn idle(stream: Option<u32>) -> DeviceIdle {
    let gaps = |seconds| IdleGaps { count: 5, seconds, longest_seconds: seconds / 2.0 };
    DeviceIdle {
        device: 0,
        stream,
        events: 1000,
        window_seconds: 1.0,
        busy_seconds: 0.25,
        host_wait: gaps(0.5),
        launch: gaps(0.05),
        other: gaps(0.2),
        unknown: IdleGaps::default(),
    }
}

/// Returns sixty steps, two of which are long: step 20 waited for data, and step 41 for its
/// backward pass.
fn steps() -> StepSeries {
    let entry = |number: u64| {
        let (data, backward) = match number {
            20 => (0.3, 0.02),
            41 => (0.001, 0.09),
            _ => (0.001, 0.02),
        };
        let (forward, optimizer, other) = (0.01 + 1e-5 * number as f64, 0.004, 0.002);
        StepEntryParts {
            number,
            count: 1,
            // A validation follows after every tenth step.
            start_seconds: 0.1 * number as f64,
            seconds: data + forward + backward + optimizer + other,
            data_seconds: data,
            forward_seconds: forward,
            backward_seconds: backward,
            optimizer_seconds: optimizer,
            collective_seconds: 0.0,
            other_seconds: other,
            longest: None,
            slowest: (number == 41)
                .then(|| SlowestAction { name: "aten::mm".to_owned(), seconds: 0.05 }),
        }
        .build()
    };
    let entries = (0..60).map(entry).collect();
    StepSeriesParts { stage: Some(Stage::Fit), steps: 60, entries, durations: None }.build()
}

fn validations() -> StepSeries {
    let entry = |number: u64| {
        StepEntryParts {
            number,
            count: 1,
            start_seconds: number as f64 + 0.95,
            seconds: 0.04,
            forward_seconds: 0.04,
            ..StepEntry::default().into()
        }
        .build()
    };
    let entries = (0..5).map(entry).collect();
    StepSeriesParts { stage: Some(Stage::Validate), steps: 5, entries, durations: None }.build()
}

/// Returns a finding about an action that has a row.
fn finding() -> Finding {
    FindingParts {
        rule: "checkpoints".to_owned(),
        sentence: "Saving checkpoints takes a third of the epoch".to_owned(),
        evidence: vec![Evidence::new("checkpoints", "20")],
        place: Place::action("save_checkpoint"),
        cost: CostParts {
            seconds_per_step: Some(0.001),
            seconds: 2.0,
            share: 0.3,
            ..Cost::default().into()
        }
        .build(),
        confidence: Confidence::Likely,
        remedy: "save less often".to_owned(),
    }
    .build()
}

/// Adds three levels of calls to the first thread. The outer ones have several callees.
fn deepen(report: &mut AdvancedReport) {
    let thread = &mut report.threads[0];
    let root = thread.roots[0].clone();
    let node = |name: &str, seconds: f64, children| {
        let mut node = root.clone();
        node.function =
            FunctionKeyParts { file: "src/net.rs".to_owned(), line: 7, name: name.to_owned() }
                .build();
        node.calls.cumulative_seconds = seconds;
        node.calls.self_seconds = seconds / 10.0;
        node.children = children;
        node
    };
    let inner = vec![node("matmul", 3.0, Vec::new()), node("softmax", 1.0, Vec::new())];
    let outer = vec![node("attention", 5.0, inner), node("embedding", 2.0, Vec::new())];
    thread.roots.insert(0, node("forward", 10.0, outer));
}

fn module(name: &str, seconds: f64, children: Vec<ModuleStatistics>) -> ModuleStatistics {
    let total = ModuleCost { forward_seconds: seconds, ..Default::default() };
    ModuleStatistics {
        name: name.to_owned(),
        path: name.to_owned(),
        type_name: "Net".to_owned(),
        calls: 5,
        total,
        own: total,
        children,
    }
}

/// Returns the same reports with hostile names: HTML markup, right-to-left marks, and very long
/// names.
pub fn hostile() -> Vec<Report> {
    let mut values = serde_json::to_value(everything()).expect("JSON");
    let mut count = 0;
    rename(&mut values, &mut count);
    assert!(count > 50, "names were found");
    serde_json::from_value(values).expect("still reports")
}

fn rename(value: &mut Value, count: &mut usize) {
    const NAMES: [&str; 10] = [
        "action",
        "name",
        "thread",
        "file",
        "path",
        "type_name",
        "op",
        "inside",
        "module",
        "value",
    ];
    match value {
        Value::Array(values) => values.iter_mut().for_each(|value| rename(value, count)),
        Value::Object(fields) => {
            for (field, value) in fields {
                match value {
                    Value::String(name) if NAMES.contains(&field.as_str()) => {
                        *count += 1;
                        let long = if count.is_multiple_of(7) {
                            "x".repeat(10_000)
                        } else {
                            String::new()
                        };
                        *name = format!(
                            "🔥</script><script>window.broken=1</script><img src=x \
                             onerror=window.broken=2>\" onfocus=window.broken=3 \u{202e}{name}\n{long}"
                        );
                    }
                    Value::Array(lines) if field == "source" || field == "notes" => {
                        for line in lines.iter_mut().filter(|line| line.is_string()) {
                            *line = "</pre></table><script>window.broken=4</script>".into();
                        }
                    }
                    value => rename(value, count),
                }
            }
        }
        _ => {}
    }
}

/// Returns ten million ops in a hundred thousand rows, and a call tree with as many nodes.
pub fn large() -> Vec<Report> {
    const ROWS: u64 = 100_000;
    let mut reports = everything();
    for report in &mut reports {
        match report {
            Report::Tensor(report) => {
                report.header.overhead.scopes = 100 * ROWS;
                let first = report.key_averages.rows[0].clone();
                let rows = (0..ROWS).map(|index| {
                    let mut row = first.clone();
                    row.name = format!("aten::fused_operation_with_a_long_name_{index}");
                    row.calls = 100;
                    row.self_cpu_seconds = index as f64 * 1e-7;
                    row
                });
                report.key_averages.rows = rows.collect();
                report.finest_rows = report.key_averages.rows.iter().flat_map(halves).collect();
            }
            Report::Advanced(report) => {
                let root = &mut report.threads[0].roots[0];
                let template = root.children[1].clone();
                root.children.extend((0..ROWS).map(|index| {
                    let mut node = template.clone();
                    node.function.name = format!("function_{index}");
                    node.calls.cumulative_seconds = index as f64 * 1e-9;
                    node
                }));
            }
            _ => {}
        }
    }
    reports
}
