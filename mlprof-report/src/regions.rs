//! Regions of devices: what streams were busy with between two points of the program, by the devices' clocks
//! (CUDA's events, the timestamps of burn's devices), and the same of actions.

use std::fmt::Write;

use serde::Serialize;

use super::label;
use super::number::{grouped, time_cell};
use super::table::Table;
use mlprof_events::OrderExt;

/// All regions of one action that have run. Times in seconds, by the device's clock: from when its
/// stream came to the region until it had left it, with the pauses in which the stream had nothing
/// to do. They are apart from host time: regions of several streams run side by side, and none of
/// them is a part of the wall time of the thread that opened it.
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

/// Appends a table of the device time of actions under a heading; nothing where none was measured.
pub(super) fn append_actions<'rows>(
    text: &mut String,
    actions: impl Iterator<Item = (String, Option<&'rows DeviceTime>)>,
) {
    let mut rows: Vec<_> = actions.filter_map(|(label, device)| Some((label, device?))).collect();
    if rows.is_empty() {
        return;
    }
    rows.order_by(|(_, one), (_, other)| other.total_seconds.total_cmp(&one.total_seconds));
    let mut table = Table::new(["Calls", "Total", "Mean", "Min", "Max", "Action"]);
    for (label, device) in rows {
        table.row([
            grouped(device.calls),
            time_cell(device.total_seconds, 4),
            time_cell(device.mean_seconds(), 4),
            time_cell(device.min_seconds, 3),
            time_cell(device.max_seconds, 3),
            label::shown(&label),
        ]);
    }
    // Writing into a string cannot fail.
    let _ = write!(text, "\nDevice time of actions, longest first\n{}{DEVICE_TIME}", table.paint());
}

/// What rows of regions are marked with among rows of host time.
pub(super) const MARK: &str = " [device]";

/// A table of regions under a heading; nothing without regions.
pub(super) fn append(text: &mut String, regions: &[DeviceRegion]) {
    if regions.is_empty() {
        return;
    }
    let mut table = Table::new(["Calls", "Total", "Mean", "Min", "Max", "Region"]);
    for region in regions {
        table.row([
            grouped(region.calls),
            time_cell(region.total_seconds, 4),
            time_cell(region.mean_seconds(), 4),
            time_cell(region.min_seconds, 3),
            time_cell(region.max_seconds, 3),
            label::shown(&region.label()),
        ]);
    }
    // Writing into a string cannot fail.
    let _ = write!(
        text,
        "\nDevice regions, longest first\n{}Times of the device's clock: no part of \
         the host's.\n",
        table.paint()
    );
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
