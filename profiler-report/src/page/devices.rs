//! What devices' counters showed.

use super::Part;
use super::table::{Cell, Column, Merge, Table, Unit};
use super::text;
use crate::number::{duration, grouped};
use crate::tensor::{CounterStatistics, DeviceCounterStatistics};
use profiler_events::DeviceCounter;

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
