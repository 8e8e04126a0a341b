//! What devices' counters showed.

use std::fmt::Write;

use super::Part;
use super::table::{Cell, Column, Merge, Table, Unit};
use super::text;
use crate::number::{duration, grouped};
use crate::tensor::{CounterStatistics, DeviceCounterStatistics, DeviceIdle};
use mlprof_events::DeviceCounter;

/// A table per device: a row per action, a column per counter.
pub(super) fn write(html: &mut String, devices: &[DeviceCounterStatistics], part: &Part) {
    for device in devices {
        if device.samples == 0 {
            continue;
        }
        let mut columns = vec![
            Column::new("Action", Unit::Text, "What ran meanwhile, on any thread")
                .merge(Merge::Key),
            Column::new("Time", Unit::Seconds, "All calls together").bar(),
        ];
        columns.extend(DeviceCounter::ALL.map(column));
        let mut table = Table::new(columns);
        let whole = "<i>the whole recording</i>".to_owned();
        table.row(cells(whole, device.recorded_seconds, &device.recording));
        for action in device.actions.iter().take(part.limits.rows) {
            let name = text::name(&action.name, part.limits.name);
            table.row(cells(name, action.total_seconds, &action.counters));
        }
        let interval = device
            .interval_seconds
            .map_or_else(String::new, |seconds| format!(", one every {}", duration(seconds)));
        let id = format!("device-{}", device.device);
        part.heading(html, &id, &format!("Device {}", device.device));
        let caption = format!("Means of {} samples{interval}", grouped(device.samples));
        table.write(html, &caption);
    }
}

/// The parts of a window, each with the class of its colour.
const PARTS: [(&str, &str); 5] =
    [("busy", "p1"), ("host late", "p0"), ("launch", "p5"), ("other", "p4"), ("unknown", "p6")];

/// How much of the window each of the [`PARTS`] is, in seconds.
fn parts_of(device: &DeviceIdle) -> [f64; 5] {
    let [host, launch, other, unknown] = device.causes().map(|(_, gaps)| gaps.seconds);
    [device.busy_seconds, host, launch, other, unknown]
}

/// What they waited for.
pub(super) fn write_idle(html: &mut String, devices: &[DeviceIdle], part: &Part) {
    if devices.is_empty() {
        return;
    }
    let mut table = Table::new([
        Column::new("Device", Unit::Text, "Its number, and that of its stream").merge(Merge::Key),
        Column::new("Parts", Unit::Markup, "The window: busy, then the gaps by cause"),
        Column::new("Window", Unit::Seconds, "From the first to the last kernel of each recording"),
        Column::new("Busy", Unit::Seconds, "A kernel, copy or fill ran"),
        Column::new("Busy, share", Unit::Share, "Of the window"),
        Column::new("Idle", Unit::Seconds, "Nothing ran: the sum of the causes beside"),
        Column::new(
            "Host late",
            Unit::Seconds,
            "Gaps before what was launched when the device had nothing to do any more",
        ),
        Column::new("Launch", Unit::Seconds, "Gaps below 30 µs before what was launched in time"),
        Column::new("Other", Unit::Seconds, "Longer gaps before what was launched in time"),
        Column::new("Unknown", Unit::Seconds, "Gaps before what nobody knows the launch of"),
        Column::new("Longest gap", Unit::Seconds, "Of whatever cause"),
        Column::new("Events", Unit::Count, "Kernels, copies and fills"),
    ]);
    for device in devices.iter().take(part.limits.rows) {
        let [busy, host, launch, other, unknown] = parts_of(device).map(Cell::from);
        let longest = device.causes().map(|(_, gaps)| gaps.longest_seconds);
        let share = device.busy_seconds / device.window_seconds;
        table.row([
            device.label().into(),
            picture(device).into(),
            device.window_seconds.into(),
            busy,
            share.is_finite().then_some(share).into(),
            device.idle_seconds().into(),
            host,
            launch,
            other,
            unknown,
            longest.into_iter().fold(0.0, f64::max).into(),
            device.events.into(),
        ]);
    }
    part.heading(html, "idle", "Devices: busy, and idle by cause");
    html.push_str("<p>");
    let is_there = |place: usize| devices.iter().any(|device| parts_of(device)[place] > 0.0);
    for (_, (name, class)) in PARTS.iter().enumerate().filter(|(place, _)| is_there(*place)) {
        // Writing into a string cannot fail, here and below.
        let _ = write!(html, "<span class=\"key {class}\">{name}</span>");
    }
    html.push_str("</p>\n");
    table.write(html, "By the devices’ own clocks; the causes add up to the idle time");
}

/// The window as a bar of its parts.
fn picture(device: &DeviceIdle) -> String {
    const WIDTH: f64 = 160.0;
    let scale = WIDTH / device.window_seconds.max(f64::MIN_POSITIVE);
    let mut svg = format!("<svg class=parts width={WIDTH:.0} height=11 aria-hidden=true>");
    let mut left = 0.0;
    for ((_, class), seconds) in PARTS.iter().zip(parts_of(device)) {
        let width = seconds * scale;
        if width >= 0.05 {
            let _ = write!(svg, "<rect class={class} x={left:.1} y=1 width={width:.1} height=9 />");
        }
        left += width;
    }
    svg + "</svg>"
}

fn cells(name: String, seconds: f64, counters: &[CounterStatistics]) -> Vec<Cell> {
    let mean = |counter| counters.iter().find(|found| found.counter == counter);
    let mut cells = vec![name.into(), seconds.into()];
    cells.extend(DeviceCounter::ALL.map(|counter| mean(counter).map(|found| found.mean).into()));
    cells
}

fn column(counter: DeviceCounter) -> Column {
    let about = counter.name();
    match counter {
        DeviceCounter::GpuUtilization => Column::new("Busy %", Unit::Number, about).bar(),
        DeviceCounter::MemoryUtilization => Column::new("Memory busy %", Unit::Number, about).bar(),
        DeviceCounter::MemoryUsed => Column::new("Memory used", Unit::Bytes, about),
        DeviceCounter::Power => Column::new("Power, W", Unit::Number, about),
        DeviceCounter::Temperature => Column::new("°C", Unit::Number, about),
        DeviceCounter::SmClock => Column::new("SM clock, MHz", Unit::Number, about),
        DeviceCounter::MemoryClock => Column::new("Memory clock, MHz", Unit::Number, about),
    }
}
