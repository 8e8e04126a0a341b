//! HTML of a Tensor report: ops, modules and cycles.

use super::Part;
use super::devices;
use super::limits::{Limits, largest};
use super::memory_over_time;
use super::simple::{FIRST_APART, write_regions};
use super::threads;
use crate::label::word;
use crate::number::{duration, grouped};
use crate::table::{Cell, Merge, bytes, count, large, seconds, table, words};
use crate::tensor::modules::modules_table;
use crate::tensor::table::shapes_text;
use crate::tensor::{KeyAverage, MemoryOverTime, TensorReport};

/// Indices of the columns that the script may fill.
const SHAPES: usize = 1;
const MODULE: usize = 2;
const PHASE: usize = 3;

/// Writes all parts of a Tensor report.
///
/// `memory` is the report's memory over time, reduced to the page's number of points.
pub(super) fn write(
    html: &mut String,
    report: &TensorReport,
    memory: &[MemoryOverTime],
    part: &Part,
) {
    write_ops(html, report, part);
    write_modules(html, report, part);
    memory_over_time::write(html, memory, report.cycle_count, part);
    threads::write_recorded(html, &report.threads, report.recorded_seconds, part);
    write_cycles(html, report, part);
    devices::write_idle(html, &report.device_idle, part);
    devices::write(html, &report.device_counters, part);
    write_tuning(html, report, part);
    write_regions(html, &report.device_regions, part);
}

/// Returns at most `most` rows of the op table in their initial order.
pub(super) fn shown_rows(report: &TensorReport, most: usize) -> Vec<&KeyAverage> {
    let averages = &report.key_averages;
    let has_device = averages.has_device_time();
    let own = |row: &KeyAverage| {
        if has_device { row.self_device_seconds } else { row.self_cpu_seconds }
    };
    let both = |row: &KeyAverage| row.self_device_seconds.max(row.self_cpu_seconds);
    let mut rows: Vec<_> = largest(&averages.rows, most, both).collect();
    rows.sort_by(|one, other| own(other).total_cmp(&own(one)));
    rows
}

/// Returns, for each shown row, its index among the rows that the page's report keeps.
pub(super) fn places_of_shown(report: &TensorReport, most: usize) -> Vec<usize> {
    let shown = shown_rows(report, most);
    let mut places: Vec<usize> = (0..shown.len()).collect();
    // The page keeps the same rows in the order of the report, so the addresses give the indices.
    places.sort_by_key(|place| std::ptr::from_ref(shown[*place]));
    let mut of_shown = vec![0; shown.len()];
    for (place, shown) in places.into_iter().enumerate() {
        of_shown[shown] = place;
    }
    of_shown
}

fn write_ops(html: &mut String, report: &TensorReport, part: &Part) {
    let averages = &report.key_averages;
    let has_device = averages.has_device_time();
    let rows = shown_rows(report, part.limits.rows);
    let finest = &report.finest_rows;
    let hidden = [
        (SHAPES, finest.iter().any(|row| !row.shapes.is_empty())),
        (MODULE, finest.iter().any(|row| !row.module.is_empty())),
        (PHASE, finest.iter().any(|row| row.phase.is_some())),
    ];
    let hidden = hidden.into_iter().filter(|(_, is_known)| *is_known).map(|(column, _)| column);
    let all = averages.rows.len();
    let caption = match all > part.limits.rows {
        true => format!(
            "{} of {} rows with the highest cost",
            grouped(part.limits.rows as u64),
            grouped(all as u64)
        ),
        false => "Ops, kernels, actions and modules of the recorded steps".to_owned(),
    };
    let table = table!(format!("{caption}. {FIRST_APART}"), rows, |row| {
        let allocated = row.memory.iter().map(|memory| memory.self_allocated_bytes).sum::<u64>();
        words("Name", "Name of the op, kernel, action or module").key() => row.name.as_str(),
        words("Shapes", "Shapes of the inputs").key() =>
            row.input_shapes.as_ref().map_or_else(String::new, |shapes| shapes_text(shapes)),
        words("Module", "Innermost module around it").key() =>
            row.module.as_deref().unwrap_or_default(),
        words("Phase", "Forward, backward, optimizer or other").key() =>
            row.phase.map_or_else(String::new, |phase| word(&phase)),
        words("Stack", "Enclosing scopes, the innermost first").key() => row.stack.join(" ‹ "),
        words("Kind", "Kind of the row").key() =>
            if row.is_on_device { "device".to_owned() } else { word(&row.kind) },
        count("Calls", "Number of calls").sum() => row.calls,
        seconds("Self host", "Wall time on the host without the scopes inside: these values add up")
            .sum().bar() => row.self_cpu_seconds,
        seconds("Host", "Wall time on the host, including the scopes inside").sum().bar() =>
            row.cpu_seconds,
        seconds(
            "Mean",
            "Mean of all calls except the first: on the host, or on the device for kernels",
        ).merge(Merge::Mean("Calls")) => row.rest_mean_seconds(),
        seconds("Self device", "Time of the kernels that this row launched itself, without the scopes inside").sum().bar() =>
            row.self_device_seconds,
        seconds("Device", "Time of kernels, including the scopes inside").sum().bar() =>
            row.device_seconds,
        seconds(
            "First",
            "First call, which Mean, Min and Max exclude; for merged rows the longest one",
        ).merge(Merge::Max) => row.first_seconds,
        seconds("Min", "Shortest call except the first").merge(Merge::Min) =>
            row.rest.map(|rest| rest.min_seconds),
        seconds("Max", "Longest call except the first").merge(Merge::Max) =>
            row.rest.map(|rest| rest.max_seconds),
        bytes("Host memory", "Allocated minus freed bytes on the host, without the scopes inside").sum() =>
            row.self_cpu_memory_bytes,
        bytes("Device memory", "Allocated minus freed bytes on devices, without the scopes inside").sum() =>
            row.self_device_memory_bytes,
        bytes("Allocated", "Bytes allocated by the row itself, on all devices").sum() => allocated,
        large("FLOPs", "Floating-point operations").sum() => known(row.flops),
        large("FLOP/s", "FLOPs per device time if there is any, otherwise per host time") =>
            row.flops_per_second(),
        bytes("Bytes", "Bytes that the calls read and write at least").sum() =>
            Cell::Number(row.moved_bytes.map(|bytes| bytes as f64)),
        large("B/s", "Bytes per device time if there is any, otherwise per host time") =>
            row.bytes_per_second(),
        large("FLOP/byte", "FLOPs per byte that is read or written") => row.flops_per_byte(),
    });
    if table.is_empty() {
        return;
    }
    let host = averages.rows.iter().map(|row| row.self_cpu_seconds).sum();
    let device = averages.rows.iter().map(|row| row.self_device_seconds).sum();
    part.heading(html, "ops", "Ops");
    table
        .group(part.index)
        .numbers_in_report()
        .hidden(hidden)
        .sorted_by(if has_device { "Self device" } else { "Self host" })
        .write_folding(html, part.limits, &[("Self host", host), ("Self device", device)]);
}

/// Returns the FLOPs as a cell. They are known only for some ops.
fn known(flops: u64) -> Cell {
    Cell::Number((flops > 0).then_some(flops as f64))
}

fn write_modules(html: &mut String, report: &TensorReport, part: &Part) {
    if report.modules.is_empty() {
        return;
    }
    part.heading(html, "modules", "Modules");
    part.icicle(html, "modules", "Modules of the model by the time of forward and backward");
    modules_table(&report.modules, part.limits.rows).write(html, part.limits);
}

fn write_cycles(html: &mut String, report: &TensorReport, part: &Part) {
    if report.cycles.is_empty() {
        return;
    }
    let caption = match report.cycle_count {
        1 => "One cycle of the schedule".to_owned(),
        count => format!("{} cycles of the schedule", grouped(count)),
    };
    let table = table!(caption, &report.cycles, |cycle| {
        count("First step", "Number of the first step in the stage, from 0") => cycle.first_step,
        count("Steps", "Number of recorded steps") => cycle.steps,
        seconds("Wall time", "Duration of the cycle").bar() => cycle.wall_seconds,
        seconds("A step", "Wall time divided by steps").bar() =>
            (cycle.steps > 0).then(|| cycle.wall_seconds / cycle.steps as f64),
        count("Events", "Number of ops, actions and other scopes") => cycle.events,
    });
    part.heading(html, "cycles", "Recorded steps");
    table.write(html, Limits { rows: usize::MAX, ..part.limits });
}

fn write_tuning(html: &mut String, report: &TensorReport, part: &Part) {
    if report.tuning.is_empty() {
        return;
    }
    let all: f64 = report.tuning.iter().map(|kernel| kernel.device_seconds).sum();
    let caption = format!("{} of device time, not included in the other numbers", duration(all));
    let kernels = largest(&report.tuning, part.limits.rows, |kernel| kernel.device_seconds);
    let table = table!(caption, kernels, |kernel| {
        words("Kernel", "Compiled or tuned kernel") => kernel.name.as_str(),
        count("Times", "Number of runs") => kernel.count,
        seconds("Device", "Device busy time").bar() => kernel.device_seconds,
    });
    part.heading(html, "tuning", "Compiling and tuning");
    table.write(html, part.limits);
}
