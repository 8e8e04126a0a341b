//! Roofline of a Tensor report.

use std::collections::HashMap;

use mlprof_events::{ActionKind, DType, TensorShape};
use mlprof_report::ReportHeader;
use mlprof_report::tensor::TensorReport;

use super::devices::Devices;
use super::roofs::{Roofs, measured};
use super::{OpUse, Roofline, compare};
use crate::machine::Peaks;

/// Compares a report with the peaks of its machine. The error names the missing peaks.
pub(crate) fn of_report(
    report: &TensorReport,
    kept: Option<Peaks>,
    devices: &Devices,
) -> Result<Roofline, String> {
    let mut notes = Vec::new();
    let roofs = roofs(report, kept, devices, &mut notes)?;
    let ops = ops(report);
    if ops.iter().all(|op| op.flops == 0 && op.bytes.is_none()) {
        notes.push("no op has known work; was the report recorded with shapes?".to_owned());
    }
    let of_cycles = report.cycles.iter().map(|cycle| cycle.wall_seconds).sum();
    let seconds = report.recorded_seconds.unwrap_or(of_cycles);
    Ok(compare(&ops, &roofs, Some((report.recorded_steps, seconds)), notes))
}

fn roofs(
    report: &TensorReport,
    kept: Option<Peaks>,
    devices: &Devices,
    notes: &mut Vec<String>,
) -> Result<Roofs, String> {
    let machine = report.header.machine.as_ref();
    if report.key_averages.has_device_time() {
        let names = machine.map(|machine| &machine.devices[..]).unwrap_or_default();
        let name = names.first().map_or(&*report.key_averages.device_name, |device| &device.name);
        return Roofs::of_device(name, devices);
    }
    let peaks = measured(kept)?;
    let is_same = machine.is_none_or(|machine| machine.cpu == peaks.processor.cpu);
    if !is_same {
        return Err("the report is from another processor; run `mlprof machine` and this command \
                    there"
            .to_owned());
    }
    let threads = threads(&report.header, &peaks);
    if threads > 1 {
        notes.push(format!(
            "roofs are those of {threads} threads; an op that uses fewer cannot reach them"
        ));
    }
    Ok(Roofs::Processor { peaks: Box::new(peaks), threads })
}

/// Returns the threads that the frameworks use, or all cores if they are unknown.
fn threads(header: &ReportHeader, peaks: &Peaks) -> u64 {
    let known = header.frameworks.iter().filter_map(|framework| framework.threads).max();
    known.unwrap_or(peaks.processor.cores).clamp(1, peaks.processor.cores)
}

/// Returns the ops of the report in the finest grouping.
fn ops(report: &TensorReport) -> Vec<OpUse> {
    let averages = &report.key_averages;
    let mut types: HashMap<&str, Option<&'static str>> = HashMap::new();
    for row in &averages.rows {
        let dtype = row.input_shapes.as_deref().and_then(dtype_of);
        let known = types.entry(&row.name).or_insert(dtype);
        // An op with several types has no common one.
        *known = known.filter(|known| Some(*known) == dtype);
    }
    if report.finest_rows.is_empty() {
        let rows = averages.rows.iter().filter(|row| row.kind == ActionKind::Op);
        return rows
            .filter(|row| !row.is_on_device)
            .map(|row| OpUse {
                name: row.name.clone(),
                dtype: row.input_shapes.as_deref().and_then(dtype_of),
                module: row.module.clone(),
                calls: row.calls,
                seconds: either(row.device_seconds, row.cpu_seconds),
                host_seconds: row.cpu_seconds,
                is_on_device: row.device_seconds > 0.0,
                flops: row.flops,
                bytes: row.moved_bytes,
            })
            .collect();
    }
    let rows = report.finest_rows.iter().filter(|row| row.kind == ActionKind::Op);
    rows.filter(|row| !row.is_on_device)
        .map(|row| OpUse {
            name: row.name.clone(),
            dtype: types.get(&*row.name).copied().flatten(),
            module: Some(row.module.clone()).filter(|module| !module.is_empty()),
            calls: row.calls,
            seconds: either(row.device_seconds, row.cpu_seconds),
            host_seconds: row.cpu_seconds,
            is_on_device: row.device_seconds > 0.0,
            flops: row.flops,
            bytes: row.moved_bytes,
        })
        .collect()
}

fn either(device: f64, host: f64) -> f64 {
    if device > 0.0 { device } else { host }
}

fn dtype_of(inputs: &[TensorShape]) -> Option<&'static str> {
    inputs.iter().find_map(|input| match input {
        TensorShape::Tensor(dtype, _) => name_of(*dtype),
        _ => None,
    })
}

/// Returns the name of a floating-point type.
pub(super) fn name_of(dtype: DType) -> Option<&'static str> {
    use DType::{BFloat16, Float8, Float16, Float32, Float64};
    matches!(dtype, Float64 | Float32 | Float16 | BFloat16 | Float8).then(|| dtype.name())
}
