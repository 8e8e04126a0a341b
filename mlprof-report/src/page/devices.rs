//! What devices' counters showed.

use super::Part;
use super::limits::Limits;
use crate::number::{duration, grouped};
use crate::table::{Cell, Column, Table, bytes, number, seconds, words};
use crate::tensor::device_idle;
use crate::tensor::{CounterStatistics, DeviceCounterStatistics, DeviceIdle};
use mlprof_events::DeviceCounter;

/// A table per device: a row per action, a column per counter.
pub(super) fn write(html: &mut String, devices: &[DeviceCounterStatistics], part: &Part) {
    for device in devices {
        if device.samples == 0 {
            continue;
        }
        let mut columns = vec![
            words("Action", "What ran meanwhile, on any thread").key(),
            seconds("Time", "All calls together").bar(),
        ];
        columns.extend(DeviceCounter::ALL.map(column));
        let mut table = Table::new(columns);
        let whole = Cell::Markup("<i>the whole recording</i>".to_owned());
        table.row(cells(whole, device.recorded_seconds, &device.recording));
        for action in device.actions.iter().take(part.limits.rows) {
            table.row(cells(action.name.as_str().into(), action.total_seconds, &action.counters));
        }
        let interval = device
            .interval_seconds
            .map_or_else(String::new, |seconds| format!(", one every {}", duration(seconds)));
        let id = format!("device-{}", device.device);
        part.heading(html, &id, &format!("Device {}", device.device));
        let caption = format!("Means of {} samples{interval}", grouped(device.samples));
        let limits = Limits { rows: part.limits.rows + 1, ..part.limits };
        table.caption(caption).write(html, limits);
    }
}

/// Writes a table of what devices waited for.
pub(super) fn write_idle(html: &mut String, devices: &[DeviceIdle], part: &Part) {
    if !devices.is_empty() {
        part.heading(html, "idle", "Devices: busy, and idle by cause");
        device_idle::table(devices).write(html, part.limits);
    }
}

fn cells(name: Cell, seconds: f64, counters: &[CounterStatistics]) -> Vec<Cell> {
    let mean = |counter| counters.iter().find(|found| found.counter == counter);
    let mut cells = vec![name, seconds.into()];
    cells.extend(DeviceCounter::ALL.map(|counter| mean(counter).map(|found| found.mean).into()));
    cells
}

fn column(counter: DeviceCounter) -> Column {
    let about = counter.name();
    match counter {
        DeviceCounter::GpuUtilization => number("Busy %", about).bar(),
        DeviceCounter::MemoryUtilization => number("Memory busy %", about).bar(),
        DeviceCounter::MemoryUsed => bytes("Memory used", about),
        DeviceCounter::Power => number("Power, W", about),
        DeviceCounter::Temperature => number("°C", about),
        DeviceCounter::SmClock => number("SM clock, MHz", about),
        DeviceCounter::MemoryClock => number("Memory clock, MHz", about),
    }
}
