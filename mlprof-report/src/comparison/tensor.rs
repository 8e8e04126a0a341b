//! Comparison rows of a Tensor report. All values are per recorded step, so the schedules may
//! differ.

use super::rows::{Rows, share};
use super::simple::{append_regions, append_run};
use super::spread::{Sample, Spread};
use super::uncertainty::Uncertainty;
use super::{Subject, steps};
use crate::TensorReport;
use crate::confidence::FEWEST;
use crate::tensor::table::shapes_text;
use crate::tensor::{KeyAverage, ModuleStatistics, device_seconds};
use mlprof_events::ActionKind;

pub(super) fn append(rows: &mut Rows, report: &TensorReport, is_whole: bool) {
    append_run(rows, &report.header);
    // The report covers only the recorded steps.
    let recorded = report.step_series.iter().flat_map(|series| &series.entries);
    let seconds = recorded.map(|entry| entry.seconds).sum();
    steps::append(rows, &report.step_series, report.header.stage, seconds);
    let count = report.recorded_steps.max(1);
    let averages = &report.key_averages;
    let sum = |pick: fn(&KeyAverage) -> f64| averages.rows.iter().map(pick).sum::<f64>();
    let host = sum(|row| row.self_cpu_seconds);
    let device = device_seconds(&averages.rows);
    let bytes = sum(|row| allocated(row) as f64);
    let of_steps =
        |number: f64, whole: f64| Sample::alone(number / count as f64, count, share(number, whole));
    for row in &averages.rows {
        if row.kind == ActionKind::Step && !report.step_series.is_empty() {
            // The step series contains more detail about steps, so this row is skipped.
            continue;
        }
        if row.kind == ActionKind::Action {
            let sample = of_typical_call(row, of_steps(row.cpu_seconds, host));
            rows.add(Subject::Actions, name(row, is_whole), sample);
            continue;
        }
        let of_calls = |sample: Sample| Sample { calls: row.calls, ..of_typical_call(row, sample) };
        if row.self_cpu_seconds > 0.0 {
            let sample = of_calls(of_steps(row.self_cpu_seconds, host));
            rows.add(Subject::Ops, name(row, is_whole), sample);
        }
        if row.self_device_seconds > 0.0 {
            let sample = of_steps(row.self_device_seconds, device);
            // For an op, the variation of its host time is known. For a kernel, the variation of
            // its device time is known.
            let sample = if row.is_on_device { of_calls(sample) } else { sample };
            rows.add(Subject::Kernels, name(row, is_whole), sample);
        }
        let own = allocated(row) as f64;
        if own > 0.0 {
            let sample = Sample::counted(own / count as f64, count, share(own, bytes));
            rows.add(Subject::Memory, name(row, is_whole), sample);
        }
    }
    append_modules(rows, &report.modules, &of_steps, host, device);
    append_regions(rows, &report.device_regions, report.header.wall_seconds);
}

/// Scales the time of all calls to its value if the first call had been a typical one, and adds its
/// uncertainty. Value and uncertainty therefore refer to the same calls. The known variation is
/// that of inclusive time. Self time is assumed to vary equally.
fn of_typical_call(row: &KeyAverage, sample: Sample) -> Sample {
    let others = row.calls.saturating_sub(1);
    let all = if row.is_on_device { row.mean_device_seconds() } else { row.mean_cpu_seconds() };
    let (Some(rest), Some(mean)) = (row.rest, row.rest_mean_seconds()) else {
        return Sample { spread: Spread::TooFew, ..sample };
    };
    let is_known = others >= FEWEST && mean > 0.0 && all > 0.0;
    let value = if is_known { sample.value * mean / all } else { sample.value };
    let spread = match rest.deviation_seconds {
        _ if others < FEWEST => Spread::TooFew,
        Some(deviation) if is_known => {
            let others = others as f64;
            let error = (deviation / others.sqrt() / mean).ln_1p();
            let freedom = others - 1.0;
            Spread::Known(Uncertainty {
                below: error,
                above: error,
                freedom,
                ..Uncertainty::fixed(0.0)
            })
        }
        _ => Spread::NotRecorded,
    };
    Sample { value, spread, ..sample }
}

/// Returns the bytes that the row itself allocated, on all devices.
fn allocated(row: &KeyAverage) -> u64 {
    row.memory.iter().map(|part| part.self_allocated_bytes).sum()
}

fn name(row: &KeyAverage, is_whole: bool) -> String {
    let mut name = row.name.clone();
    if !is_whole {
        return name;
    }
    if let Some(shapes) = &row.input_shapes {
        name = format!("{name} {}", shapes_text(shapes));
    }
    if let Some(module) = &row.module {
        name = format!("{name} in {module}");
    }
    if let Some(phase) = row.phase {
        name = format!("{name}, {}", phase.as_str());
    }
    if !row.stack.is_empty() {
        name = format!("{name} < {}", row.stack.join(" < "));
    }
    name
}

/// Appends the modules by self cost, which excludes nested modules. These costs add up.
fn append_modules(
    rows: &mut Rows,
    modules: &[ModuleStatistics],
    of_steps: &impl Fn(f64, f64) -> Sample,
    host: f64,
    device: f64,
) {
    let mut open: Vec<_> = modules.iter().collect();
    while let Some(module) = open.pop() {
        open.extend(&module.children);
        let name = match (module.path.is_empty(), module.type_name.is_empty()) {
            (true, _) => module.name.clone(),
            (false, true) => module.path.clone(),
            (false, false) => format!("{}: {}", module.path, module.type_name),
        };
        let own = &module.own;
        if own.cpu_seconds() > 0.0 {
            rows.add(Subject::Modules, name.clone(), of_steps(own.cpu_seconds(), host));
        }
        if own.device_seconds() > 0.0 {
            rows.add(Subject::ModulesOnDevice, name, of_steps(own.device_seconds(), device));
        }
    }
}
