//! Device counters: means and maxima per action, and a table for each device.

use std::fmt::Write;

use serde::Serialize;

use crate::number::{bytes, duration, grouped};
use crate::table::{Cell, Column, Table, Unit, count, digits, words};
use mlprof_events::{ActionKind, DeviceCounter};

/// Maximum number of actions shown per device. The longest are shown, and JSON contains all of
/// them.
const ACTIONS_SHOWN: usize = 20;

/// Counter statistics of one device, over all cycles in which it was sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DeviceCounterStatistics {
    /// Index of the device, from 0.
    pub device: u32,
    /// Number of samples taken from the device.
    pub samples: u64,
    /// Mean interval between samples, in seconds. `None` if no cycle has two samples.
    pub interval_seconds: Option<f64>,
    /// Total duration of these cycles in seconds.
    pub recorded_seconds: f64,
    /// Total memory of the device in bytes, if known.
    #[serde(default)]
    pub memory_bytes: Option<u64>,
    /// Statistics of all samples, by counter. Counters that the device lacks are omitted.
    pub recording: Vec<CounterStatistics>,
    /// Samples during each action, module and step, on any thread. Ordered by duration, longest
    /// first.
    pub actions: Vec<ActionDeviceCounters>,
}

/// Calls of one action while a device was sampled.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct ActionDeviceCounters {
    /// Name of the action. `ProfilerStep*` for all steps.
    pub name: String,
    /// Kind of the action.
    pub kind: ActionKind,
    /// Number of calls in the cycles that have samples.
    pub calls: u64,
    /// Total duration of the calls in seconds. Nested calls count separately.
    pub total_seconds: f64,
    /// Statistics by counter. Empty if no sample was taken during any of the calls.
    pub counters: Vec<CounterStatistics>,
}

/// Samples of one counter of one device.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct CounterStatistics {
    /// The counter.
    pub counter: DeviceCounter,
    /// Number of samples. A sample during several calls counts once for each of them.
    pub samples: u64,
    /// Mean of the samples, in the counter's [unit](DeviceCounter::unit).
    pub mean: f64,
    /// Maximum of the samples, in the same unit.
    pub max: f64,
}

/// Renders the tables. Returns an empty string without samples. Writing into a string cannot fail,
/// so the results are ignored.
pub(crate) fn paint(devices: &[DeviceCounterStatistics]) -> String {
    let mut text = String::new();
    for device in devices {
        let interval = device
            .interval_seconds
            .map_or_else(String::new, |seconds| format!(", one every {}", duration(seconds)));
        let _ = writeln!(
            text,
            "{}Device {}: mean / maximum of {} samples{interval}",
            if text.is_empty() { "" } else { "\n" },
            device.device,
            grouped(device.samples)
        );
        text.push_str(&table(device).text(1 + ACTIONS_SHOWN));
    }
    if !text.is_empty() {
        text.push_str(
            "A sample counts for all actions that were open at its time, on any thread; - : no \
             action was open. Busy: share of\ntime in which a kernel ran, or memory was read or \
             written, as reported by the driver for up to a second before the\nsample.\n",
        );
    }
    text
}

/// Returns a table of actions with a column for each counter. Pages show means, and text also shows
/// maxima.
pub(crate) fn table(device: &DeviceCounterStatistics) -> Table {
    let mut columns = vec![
        words("Action", "Action that was open on any thread").key(),
        count("Samples", "").in_text(),
        digits(4, "Time", "Time of all calls").bar(),
    ];
    for counter in DeviceCounter::ALL {
        let (title, unit) = title_of(counter);
        columns.push(Column::new(title, unit, "").in_text().optional());
        let column = Column::new(title, unit, counter.name()).on_page();
        let is_share = counter.unit() == "%";
        columns.push(if is_share { column.bar() } else { column });
    }
    let mut table = Table::new(columns).rest("{} more actions are only in the JSON report.");
    let whole = "[whole recording]";
    table.row(cells(whole, device.samples, device.recorded_seconds, &device.recording));
    for action in &device.actions {
        let samples = action.counters.iter().map(|counter| counter.samples).max().unwrap_or(0);
        table.row(cells(&action.name, samples, action.total_seconds, &action.counters));
    }
    table
}

fn cells(name: &str, samples: u64, seconds: f64, counters: &[CounterStatistics]) -> Vec<Cell> {
    let mut cells = vec![name.into(), samples.into(), seconds.into()];
    for counter in DeviceCounter::ALL {
        let found = counters.iter().find(|found| found.counter == counter);
        cells.push(found.map_or(Cell::Number(None), |found| mean_and_maximum(found).into()));
        cells.push(found.map(|found| found.mean).into());
    }
    cells
}

/// Returns the title and the unit of a counter's column.
fn title_of(counter: DeviceCounter) -> (&'static str, Unit) {
    match counter {
        DeviceCounter::GpuUtilization => ("Busy %", Unit::Number),
        DeviceCounter::MemoryUtilization => ("Memory busy %", Unit::Number),
        DeviceCounter::MemoryUsed => ("Memory used", Unit::Bytes),
        DeviceCounter::Power => ("Power W", Unit::Number),
        DeviceCounter::Temperature => ("°C", Unit::Number),
        DeviceCounter::SmClock => ("SM MHz", Unit::Number),
        DeviceCounter::MemoryClock => ("Memory MHz", Unit::Number),
    }
}

fn mean_and_maximum(found: &CounterStatistics) -> String {
    let (mean, max) = (found.mean, found.max);
    match found.counter {
        DeviceCounter::MemoryUsed => format!("{} / {}", bytes(mean as u64), bytes(max as u64)),
        DeviceCounter::SmClock | DeviceCounter::MemoryClock => format!("{mean:.0} / {max:.0}"),
        DeviceCounter::Power => format!("{mean:.1} / {max:.1}"),
        _ => format!("{mean:.1} / {max:.0}"),
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn statistics(counter: DeviceCounter, mean: f64, max: f64) -> CounterStatistics {
        CounterStatistics { counter, samples: 12, mean, max }
    }

    fn device() -> DeviceCounterStatistics {
        let action = |name: &str, total_seconds: f64, counters: Vec<_>| ActionDeviceCounters {
            name: name.to_owned(),
            kind: ActionKind::Action,
            calls: 3,
            total_seconds,
            counters,
        };
        let busy = statistics(DeviceCounter::GpuUtilization, 87.25, 100.0);
        DeviceCounterStatistics {
            device: 0,
            samples: 1234,
            interval_seconds: Some(0.1),
            recorded_seconds: 123.4,
            memory_bytes: None,
            recording: vec![
                busy,
                statistics(DeviceCounter::MemoryUsed, 1_610_612_736.0, 2_147_483_648.0),
                statistics(DeviceCounter::Power, 301.25, 350.0),
            ],
            actions: vec![
                action("run_training_batch", 100.0, vec![busy]),
                action("on_train_batch_end", 0.002, Vec::new()),
            ],
        }
    }

    #[test]
    fn the_table_has_the_counters_that_there_are() {
        let text = paint(&[device()]);
        let lines: Vec<_> = text.lines().collect();
        let expected = [
            "Device 0: mean / maximum of 1,234 samples, one every 100 ms",
            "Samples      Time      Busy %          Memory used        Power W  Action",
            "─────────────────────────────────────────────────────────────────────────────────────",
            "  1,234  123.4 s   87.2 / 100  1.50 GiB / 2.00 GiB  301.2 / 350.0  [whole recording]",
            "     12  100.0 s   87.2 / 100                    -              -  run_training_batch",
            "      0  2.000 ms           -                    -              -  on_train_batch_end",
        ];
        assert_eq!(lines[..6], expected, "{text}");
        assert_eq!(paint(&[]), "");
    }

    #[test]
    fn further_actions_are_counted_only() {
        let mut device = device();
        let action = device.actions[0].clone();
        device.actions = vec![action; ACTIONS_SHOWN + 2];
        let text = paint(&[device.clone(), device]);
        assert_eq!(
            text.matches("2 more actions are only in the JSON report.").count(),
            2,
            "{text}"
        );
        assert_eq!(text.matches("run_training_batch").count(), 2 * ACTIONS_SHOWN);
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }
}
