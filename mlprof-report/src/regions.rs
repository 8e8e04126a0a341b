//! Regions of devices: what streams were busy with between two points of the program, by the devices' clocks
//! (CUDA's events, the timestamps of burn's devices), and the same of actions.

use std::fmt::Write;

use serde::Serialize;

use super::table::{Table, count, digits, table, words};

/// All regions of one action that have run. Times in seconds, by the device's clock: from when its
/// stream came to the region until it had left it, with the pauses in which the stream had nothing
/// to do. They are apart from host time: regions of several streams run side by side, and none of
/// them is a part of the wall time of the thread that opened it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DeviceRegion {
    /// The action's name.
    pub action: String,
    /// The stage inside the reported one that it belongs to, if any.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// How many have run.
    pub calls: u64,
    /// All of them together; a region inside another one is in both.
    pub total_seconds: f64,
    /// The shortest.
    pub min_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
}

impl DeviceRegion {
    /// The mean, in seconds.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }

    /// The name as reports show it beside those of actions: `training_step [device]`.
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }
}

/// Device time of an action, where it was measured (`measure_devices`). Times in seconds, by the device's
/// clock: of each call from the first work that it handed to the device to the last, with the pauses
/// between them and what ran in actions inside. They are no part of the host's time: the device may run
/// the work of a call after the call has ended.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DeviceTime {
    /// How many calls have a time: those that handed work to a device. Calls inside a call of the same action are
    /// not counted once more.
    pub calls: u64,
    /// All of them together.
    pub total_seconds: f64,
    /// The shortest.
    pub min_seconds: f64,
    /// The longest.
    pub max_seconds: f64,
}

impl DeviceTime {
    /// Returns the times of a region as those of an action.
    pub fn of(region: &DeviceRegion) -> Self {
        Self {
            calls: region.calls,
            total_seconds: region.total_seconds,
            min_seconds: region.min_seconds,
            max_seconds: region.max_seconds,
        }
    }

    /// Returns the mean, in seconds.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }
}

/// The explanation below tables with device time of actions.
pub(super) const DEVICE_TIME: &str = "Device: time of the device's clock, from the first work that a call \
     handed to it to the last, with pauses; no part of the host's time.\n";

/// Returns a table of the device time of actions, the longest first.
pub(super) fn actions<'rows>(
    actions: impl Iterator<Item = (String, Option<&'rows DeviceTime>)>,
) -> Table {
    let mut rows: Vec<_> = actions.filter_map(|(label, time)| Some((label, *time?))).collect();
    rows.sort_by(|(_, one), (_, other)| other.total_seconds.total_cmp(&one.total_seconds));
    of_times("Action", rows)
}

/// Returns a table of regions.
pub(super) fn regions(regions: &[DeviceRegion]) -> Table {
    let of_region = |region: &DeviceRegion| (region.label(), DeviceTime::of(region));
    of_times("Region", regions.iter().map(of_region).collect())
}

fn of_times(title: &'static str, rows: Vec<(String, DeviceTime)>) -> Table {
    let caption = "Times of the device's clock: no part of the host's";
    let table = table!(caption, rows, |(label, time)| {
        words(title, "What ran").key() => label,
        count("Calls", "How many have run") => time.calls,
        digits(4, "Total", "All of them").bar() => time.total_seconds,
        digits(4, "Mean", "Total by calls") => time.mean_seconds(),
        digits(3, "Min", "The shortest") => time.min_seconds,
        digits(3, "Max", "The longest") => time.max_seconds,
    });
    table.sorted_by("Total")
}

/// Appends a table of the device time of actions under a heading; nothing where none was measured.
pub(super) fn append_actions<'rows>(
    text: &mut String,
    rows: impl Iterator<Item = (String, Option<&'rows DeviceTime>)>,
) {
    let table = actions(rows);
    if !table.is_empty() {
        // Writing into a string cannot fail, here and below.
        let heading = "Device time of actions, longest first";
        let _ = write!(text, "\n{heading}\n{}{DEVICE_TIME}", table.text(usize::MAX));
    }
}

/// What rows of regions are marked with among rows of host time.
pub(super) const MARK: &str = " [device]";

/// Appends a table of regions under a heading; nothing without regions.
pub(super) fn append(text: &mut String, rows: &[DeviceRegion]) {
    let table = regions(rows);
    if !table.is_empty() {
        let (heading, caption) = ("Device regions, longest first", &table.caption);
        let _ = write!(text, "\n{heading}\n{}{caption}.\n", table.text(usize::MAX));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regions_have_a_table_of_their_own() {
        let region = DeviceRegion {
            action: "forward".to_owned(),
            sub_stage: Some(mlprof_events::Stage::SanityCheck),
            calls: 1200,
            total_seconds: 2.4,
            min_seconds: 0.001_5,
            max_seconds: 0.25,
        };
        let mut text = String::new();
        append(&mut text, &[]);
        assert_eq!(text, "");
        append(&mut text, &[region]);
        let row = text.lines().find(|line| line.ends_with("[SanityCheck]forward"));
        let cells: Vec<_> = row.unwrap_or_default().split_whitespace().collect();
        assert_eq!(cells[..5], ["1,200", "2.400", "s", "2.000", "ms"], "{text}");
    }
}
