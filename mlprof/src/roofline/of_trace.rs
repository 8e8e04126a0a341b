//! Roofline of a trace.

use std::collections::HashMap;

use mlprof_analysis::trace::{Category, Slice};
use mlprof_analysis::{Analysis, Trace};

use super::devices::Devices;
use super::of_report::name_of;
use super::roofs::{Roofs, measured};
use super::{OpUse, Roofline, compare};
use crate::machine::Peaks;

/// Compares a trace with the peaks of its device, or of this machine if no device worked. The error
/// names the missing peaks.
pub(crate) fn of_trace(
    trace: &Trace,
    analysis: &Analysis,
    kept: Option<Peaks>,
    devices: &Devices,
) -> Result<Roofline, String> {
    let has_device = trace.slices.iter().any(|slice| slice.category == Category::Kernel);
    let roofs = match (has_device, trace.info.devices.first()) {
        (true, Some(known)) => Roofs::of_device(&known.name, devices)?,
        (true, None) => return Err("the trace does not name its device".to_owned()),
        (false, _) => {
            let peaks = measured(kept)?;
            let threads = peaks.processor.cores;
            Roofs::Processor { peaks: Box::new(peaks), threads }
        }
    };
    let notes = match &roofs {
        Roofs::Processor { threads, .. } => vec![format!(
            "roofs are those of this machine with {threads} threads; the trace does not state its \
             processor"
        )],
        Roofs::Device(_) => vec![
            "data in the device's cache may move faster than its memory, so shares above 100 % are \
             possible"
                .to_owned(),
        ],
    };
    let seconds: i64 = analysis.steps.iter().map(|step| step.duration_ns).sum();
    let steps = (analysis.steps.len() as u64, seconds as f64 / 1e9);
    // Without steps, the trace's window takes their place.
    let window = trace.window().map(|(start, end)| (1, (end - start) as f64 / 1e9));
    let steps = if analysis.steps.is_empty() { window } else { Some(steps) };
    Ok(compare(&ops(trace, has_device), &roofs, steps, notes))
}

/// Returns the ops by name and work. An op inside an op with known bytes does not count.
fn ops(trace: &Trace, has_device: bool) -> Vec<OpUse> {
    let owners = owners(trace);
    let device_times = if has_device { device_times(trace, &owners) } else { HashMap::new() };
    let mut uses: HashMap<_, OpUse> = HashMap::new();
    for (place, slice) in trace.slices.iter().enumerate() {
        if owners[place] != Some(place) {
            continue;
        }
        let work = trace.work(slice);
        let host_seconds = slice.duration as f64 / 1e9;
        let on_device = device_times.get(&place).map(|time| *time as f64 / 1e9);
        let dtype = work.dtype.and_then(name_of);
        let found = uses.entry((slice.name, work.bytes, work.flops, dtype, on_device.is_some()));
        let op = found.or_insert_with(|| OpUse {
            name: trace.name(slice).to_owned(),
            dtype,
            module: None,
            calls: 0,
            seconds: 0.0,
            host_seconds: 0.0,
            is_on_device: on_device.is_some(),
            flops: 0,
            bytes: work.bytes.map(|_| 0),
        });
        op.calls += 1;
        op.seconds += on_device.unwrap_or(host_seconds);
        op.host_seconds += host_seconds;
        op.flops = op.flops.saturating_add(work.flops.unwrap_or(0));
        op.bytes = op.bytes.zip(work.bytes).map(|(sum, bytes)| sum.saturating_add(bytes));
    }
    // Without device time, an op of a trace with kernels did no work.
    uses.into_values().filter(|op| !has_device || op.is_on_device).collect()
}

/// Returns, for each slice, the outermost enclosing op with known bytes or operations.
fn owners(trace: &Trace) -> Vec<Option<usize>> {
    let has_work = |slice: &Slice| {
        let work = trace.work(slice);
        slice.category == Category::CpuOp && (work.bytes.is_some() || work.flops.is_some())
    };
    let mut owners: Vec<Option<usize>> = vec![None; trace.slices.len()];
    for (place, slice) in trace.slices.iter().enumerate() {
        // A parent on another track may follow, so its ancestors are visited.
        let mut around = slice.parent();
        let mut owner = has_work(slice).then_some(place);
        while let Some(parent) = around {
            if let Some(known) = owners[parent] {
                owner = Some(known);
                break;
            }
            if has_work(&trace.slices[parent]) {
                owner = Some(parent);
            }
            around = trace.slices[parent].parent();
        }
        owners[place] = owner;
    }
    owners
}

/// Returns the device time of each op in nanoseconds, by the calls that launched the work.
fn device_times(trace: &Trace, owners: &[Option<usize>]) -> HashMap<usize, i64> {
    let mut calls: HashMap<u32, usize> = HashMap::new();
    for (place, slice) in trace.slices.iter().enumerate() {
        let is_call = matches!(slice.category, Category::CudaRuntime | Category::CudaDriver);
        if is_call && slice.correlation != 0 {
            calls.entry(slice.correlation).or_insert(place);
        }
    }
    let mut times = HashMap::new();
    for slice in &trace.slices {
        let is_work =
            matches!(slice.category, Category::Kernel | Category::GpuMemcpy | Category::GpuMemset);
        let call = calls.get(&slice.correlation).filter(|_| is_work);
        if let Some(owner) = call.and_then(|call| owners[*call]) {
            *times.entry(owner).or_insert(0) += slice.duration;
        }
    }
    times
}
