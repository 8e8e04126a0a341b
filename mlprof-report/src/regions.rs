//! Device regions: the work of streams between two points of the program, measured by the devices'
//! clocks. These are CUDA events or the timestamps of burn's devices. The device time of actions is
//! measured in the same way.

use std::fmt::Write;

use serde::Serialize;

use super::table::{Table, count, digits, table, words};

/// All finished regions of one action. Times are in seconds by the device's clock. A region lasts
/// from when its stream reaches it until the stream has left it, including idle gaps. These times
/// are separate from host time. Regions of several streams overlap, and they are not part of the
/// wall time of the thread that opened them.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DeviceRegion {
    /// Name of the action.
    pub action: String,
    /// Nested stage that the action belongs to, if any.
    pub sub_stage: Option<mlprof_events::Stage>,
    /// Number of finished regions.
    pub calls: u64,
    /// Total time of all regions in seconds. A nested region counts in both.
    pub total_seconds: f64,
    /// Duration of the shortest region in seconds.
    pub min_seconds: f64,
    /// Duration of the longest region in seconds.
    pub max_seconds: f64,
}

impl DeviceRegion {
    /// Returns the mean duration in seconds.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }

    /// Returns the name with its nested stage. Reports append a mark to it: `training_step
    /// [device]`.
    pub fn label(&self) -> String {
        super::label::with_stage(self.sub_stage, &self.action)
    }
}

/// Device time of an action, if it was measured (`measure_devices`). Times are in seconds by the
/// device's clock. A call's time lasts from the first work that it submitted to the last, including
/// gaps and nested actions. It is not part of the host time, because the device may run the work
/// after the call has ended.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct DeviceTime {
    /// Number of calls with a device time, which submitted work to a device. Recursive calls are
    /// not counted again.
    pub calls: u64,
    /// Total device time of all calls in seconds.
    pub total_seconds: f64,
    /// Shortest device time of a call in seconds.
    pub min_seconds: f64,
    /// Longest device time of a call in seconds.
    pub max_seconds: f64,
}

impl DeviceTime {
    /// Converts the times of a region into the device time of an action.
    pub fn of(region: &DeviceRegion) -> Self {
        Self {
            calls: region.calls,
            total_seconds: region.total_seconds,
            min_seconds: region.min_seconds,
            max_seconds: region.max_seconds,
        }
    }

    /// Returns the mean device time in seconds.
    pub fn mean_seconds(&self) -> f64 {
        if self.calls == 0 { 0.0 } else { self.total_seconds / self.calls as f64 }
    }
}

/// Legend below tables with the device time of actions.
pub(super) const DEVICE_TIME: &str = "Device: time of the device's clock, from the first to the \
                                      last work of a call, including pauses; it is not part of the \
                                      host's time.\n";

/// Returns a table of the device time of actions, ordered by total time, longest first.
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
    let caption = "Times of the device's clock, which are not part of the host's time";
    let table = table!(caption, rows, |(label, time)| {
        words(title, "Name of the action or region").key() => label,
        count("Calls", "Number of calls") => time.calls,
        digits(4, "Total", "Total device time of all calls").bar() => time.total_seconds,
        digits(4, "Mean", "Total divided by calls") => time.mean_seconds(),
        digits(3, "Min", "Shortest call") => time.min_seconds,
        digits(3, "Max", "Longest call") => time.max_seconds,
    });
    table.sorted_by("Total")
}

/// Appends a table of the device time of actions under a heading. Appends no text if none was
/// measured.
pub(super) fn append_actions<'rows>(
    text: &mut String,
    rows: impl Iterator<Item = (String, Option<&'rows DeviceTime>)>,
) {
    let table = actions(rows);
    if !table.is_empty() {
        // Writing into a string cannot fail, so these results are ignored.
        let heading = "Device time of actions, longest first";
        let _ = write!(text, "\n{heading}\n{}{DEVICE_TIME}", table.text(usize::MAX));
    }
}

/// Suffix that marks rows of regions among rows of host time.
pub(super) const MARK: &str = " [device]";

/// Appends a table of regions under a heading. Appends no text without regions.
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
