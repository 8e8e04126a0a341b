//! Ops, modules and cycles.

use super::Part;
use super::devices;
use super::limits::largest;
use super::memory_over_time;
use super::simple::{FIRST_APART, write_regions};
use super::table::{Cell, Column, Merge, Table, Unit};
use super::text;
use super::threads;
use crate::number::{duration, grouped};
use crate::tensor::table::shapes_text;
use crate::tensor::{KeyAverage, MemoryOverTime, ModuleStatistics, TensorReport};

const SHAPES: usize = 1;
const MODULE: usize = 2;
const PHASE: usize = 3;
const CALLS: usize = 6;
const SELF_HOST: usize = 7;
const SELF_DEVICE: usize = 10;

const COLUMNS: [Column; 20] = [
    Column::new("Name", Unit::Text, "The op, kernel, action or module").merge(Merge::Key),
    Column::new("Shapes", Unit::Text, "Of the inputs").merge(Merge::Key),
    Column::new("Module", Unit::Text, "The innermost module around it").merge(Merge::Key),
    Column::new("Phase", Unit::Text, "Forward, backward, optimizer or other").merge(Merge::Key),
    Column::new("Stack", Unit::Text, "What is around it, the innermost first").merge(Merge::Key),
    Column::new("Kind", Unit::Text, "What it is").merge(Merge::Key),
    Column::new("Calls", Unit::Count, "How many calls").merge(Merge::Sum),
    Column::new(
        "Self host",
        Unit::Seconds,
        "Wall time on the host without what ran inside: these add up",
    )
    .merge(Merge::Sum)
    .bar(),
    Column::new("Host", Unit::Seconds, "Wall time on the host with what ran inside")
        .merge(Merge::Sum)
        .bar(),
    Column::new(
        "Mean",
        Unit::Seconds,
        "The mean of the calls except the first: on the host, or a kernel's on the device",
    )
    .merge(Merge::Mean(CALLS)),
    Column::new("Self device", Unit::Seconds, "Time of the kernels that it caused itself")
        .merge(Merge::Sum)
        .bar(),
    Column::new("Device", Unit::Seconds, "Time of kernels, with what ran inside")
        .merge(Merge::Sum)
        .bar(),
    Column::new(
        "First",
        Unit::Seconds,
        "The first call, which is in none of Mean, Min and Max; of rows put together the longest",
    )
    .merge(Merge::Max),
    Column::new("Min", Unit::Seconds, "The shortest of the calls except the first")
        .merge(Merge::Min),
    Column::new("Max", Unit::Seconds, "The longest of the calls except the first")
        .merge(Merge::Max),
    Column::new(
        "Host memory",
        Unit::Bytes,
        "Allocated less freed on the host, without what ran inside",
    )
    .merge(Merge::Sum),
    Column::new(
        "Device memory",
        Unit::Bytes,
        "Allocated less freed on devices, without what ran inside",
    )
    .merge(Merge::Sum),
    Column::new("Allocated", Unit::Bytes, "Allocated by itself, on all devices").merge(Merge::Sum),
    Column::new("FLOPs", Unit::Large, "Floating-point operations").merge(Merge::Sum),
    Column::new("FLOP/s", Unit::Large, "By device time if there is any, else by host time"),
];

/// Everything that a Tensor report has.
///
/// `memory`: that of the report, in as many moments as the page has.
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

/// The rows of the table of ops, at most so many, as it stands at first.
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

/// Where each row of that table stands among those that the page's report has kept.
pub(super) fn places_of_shown(report: &TensorReport, most: usize) -> Vec<usize> {
    let shown = shown_rows(report, most);
    let mut places: Vec<usize> = (0..shown.len()).collect();
    // Those that are kept are the same, in the order in which they stand in the report.
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
    let mut table = Table::new(COLUMNS).can_group(part.index).numbers_in_report().hidden(hidden);
    table = table.sorted_by(if has_device { SELF_DEVICE } else { SELF_HOST });
    rows.into_iter().for_each(|row| table.row(cells(row, part)));
    if table.is_empty() {
        return;
    }
    part.heading(html, "ops", "Ops");
    let all = averages.rows.len();
    let caption = match all > part.limits.rows {
        true => format!(
            "{} of {} rows: those that cost the most",
            grouped(part.limits.rows as u64),
            grouped(all as u64)
        ),
        false => "Ops, kernels, actions and modules of the recorded steps".to_owned(),
    };
    table.write(html, &format!("{caption}. {FIRST_APART}"));
}

fn cells(row: &KeyAverage, part: &Part) -> [Cell; 20] {
    let name = |text: &str| text::name(text, part.limits.name);
    let shapes =
        row.input_shapes.as_ref().map_or_else(String::new, |shapes| name(&shapes_text(shapes)));
    let phase = row.phase.map_or_else(String::new, |phase| word(&phase));
    let kind = if row.is_on_device { "device".to_owned() } else { word(&row.kind) };
    let allocated: u64 = row.memory.iter().map(|memory| memory.self_allocated_bytes).sum();
    [
        name(&row.name).into(),
        shapes.into(),
        row.module.as_deref().map_or_else(String::new, name).into(),
        phase.into(),
        name(&row.stack.join(" ‹ ")).into(),
        kind.into(),
        row.calls.into(),
        row.self_cpu_seconds.into(),
        row.cpu_seconds.into(),
        row.rest_mean_seconds().into(),
        row.self_device_seconds.into(),
        row.device_seconds.into(),
        row.first_seconds.into(),
        row.rest.map(|rest| rest.min_seconds).into(),
        row.rest.map(|rest| rest.max_seconds).into(),
        row.self_cpu_memory_bytes.into(),
        row.self_device_memory_bytes.into(),
        allocated.into(),
        known(row.flops),
        row.flops_per_second().into(),
    ]
}

/// FLOPs are known of some ops only.
fn known(flops: u64) -> Cell {
    Cell::Number((flops > 0).then_some(flops as f64))
}

/// A value of an enum, as JSON has it.
pub(super) fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => text::escape(&word),
        _ => String::new(),
    }
}

fn write_modules(html: &mut String, report: &TensorReport, part: &Part) {
    if report.modules.is_empty() {
        return;
    }
    let mut table = Table::new([
        Column::new("Module", Unit::Text, "The last part of its path, and its type"),
        Column::new("Calls", Unit::Count, "How many times it ran"),
        Column::new(
            "Forward",
            Unit::Seconds,
            "Host time of forward, with the modules that it called",
        )
        .bar(),
        Column::new("Self forward", Unit::Seconds, "Without those: these add up").bar(),
        Column::new("Backward", Unit::Seconds, "Host time of backward").bar(),
        Column::new("Device", Unit::Seconds, "Device time of both").bar(),
        Column::new("Allocated", Unit::Bytes, "Allocated in forward, on all devices"),
        Column::new("FLOPs", Unit::Large, "Floating-point operations of both"),
        Column::new("FLOP/s", Unit::Large, "By device time if there is any, else by host time"),
    ])
    .tree();
    let mut left = part.limits.rows;
    report.modules.iter().for_each(|module| add_module(&mut table, module, 0, &mut left, part));
    part.heading(html, "modules", "Modules");
    part.icicle(html, "modules", "Modules of the model by the time of forward and backward");
    table.write(html, "In the order in which they first ran");
}

fn add_module(
    table: &mut Table,
    module: &ModuleStatistics,
    depth: usize,
    left: &mut usize,
    part: &Part,
) {
    if *left == 0 {
        return;
    }
    *left -= 1;
    let kind = match module.type_name.as_str() {
        "" => String::new(),
        kind if kind == module.name => String::new(),
        kind => format!(" <i>{}</i>", text::name(kind, part.limits.name)),
    };
    let total = &module.total;
    table.row_at(
        depth,
        [
            (text::name(&module.name, part.limits.name) + &kind).into(),
            module.calls.into(),
            total.forward_seconds.into(),
            module.own.forward_seconds.into(),
            total.backward_seconds.into(),
            total.device_seconds().into(),
            total.allocated_bytes.into(),
            known(total.flops()),
            total.flops_per_second().into(),
        ],
    );
    module.children.iter().for_each(|child| add_module(table, child, depth + 1, left, part));
}

fn write_cycles(html: &mut String, report: &TensorReport, part: &Part) {
    if report.cycles.is_empty() {
        return;
    }
    let mut table = Table::new([
        Column::new("First step", Unit::Count, "Counted from 0 in the stage"),
        Column::new("Steps", Unit::Count, "How many steps were recorded"),
        Column::new("Wall time", Unit::Seconds, "How long the cycle lasted").bar(),
        Column::new("A step", Unit::Seconds, "Wall time by steps").bar(),
        Column::new("Events", Unit::Count, "Ops, actions and other scopes"),
    ]);
    for cycle in &report.cycles {
        table.row([
            cycle.first_step.into(),
            cycle.steps.into(),
            cycle.wall_seconds.into(),
            (cycle.steps > 0).then(|| cycle.wall_seconds / cycle.steps as f64).into(),
            cycle.events.into(),
        ]);
    }
    part.heading(html, "cycles", "Recorded steps");
    let caption = match report.cycle_count {
        1 => "One cycle of the schedule".to_owned(),
        count => format!("{} cycles of the schedule", grouped(count)),
    };
    table.write(html, &caption);
}

fn write_tuning(html: &mut String, report: &TensorReport, part: &Part) {
    if report.tuning.is_empty() {
        return;
    }
    let mut table = Table::new([
        Column::new("Kernel", Unit::Text, "What was compiled or tried"),
        Column::new("Times", Unit::Count, "How often"),
        Column::new("Device", Unit::Seconds, "How long the device was busy with it").bar(),
    ]);
    for kernel in largest(&report.tuning, part.limits.rows, |kernel| kernel.device_seconds) {
        table.row([
            text::name(&kernel.name, part.limits.name).into(),
            kernel.count.into(),
            kernel.device_seconds.into(),
        ]);
    }
    let seconds: f64 = report.tuning.iter().map(|kernel| kernel.device_seconds).sum();
    part.heading(html, "tuning", "Compiling and tuning");
    table
        .write(html, &format!("{} on the device, in none of the other numbers", duration(seconds)));
}
