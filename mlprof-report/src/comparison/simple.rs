//! Comparison rows of a Simple report.

use super::rows::{Rows, share};
use super::spread::{Sample, Spread};
use super::uncertainty::Uncertainty;
use super::{Limits, Subject, steps};
use crate::ReportHeader;
use crate::confidence::FEWEST;
use crate::regions::{DeviceRegion, DeviceTime};
use crate::simple::{ActionStatistics, SimpleReport};

pub(super) fn append(rows: &mut Rows, report: &SimpleReport) {
    let wall = report.header.wall_seconds;
    append_run(rows, &report.header);
    steps::append(rows, &report.step_series, report.header.stage, wall);
    if let Some(waiting) = &report.data_waiting {
        let sample =
            Sample::alone(waiting.waiting_seconds, 1, share(waiting.waiting_seconds, wall));
        rows.add(Subject::Run, "waiting for data", sample);
    }
    for row in report.actions.iter().filter(|row| !report.is_startup(row)) {
        rows.add(Subject::Actions, row.label(), sample(row, share(row.total_seconds, wall)));
    }
    let devices = report.actions.iter().map(|row| (row.label(), row.device));
    append_device_times(rows, devices, wall);
    append_regions(rows, &report.device_regions, wall);
}

/// Returns the median of all calls except the first one. With a single call, returns that call.
fn sample(row: &ActionStatistics, share: f64) -> Sample {
    let (value, spread) = match &row.rest {
        None => (row.first_seconds, Spread::TooFew),
        Some(rest) => {
            let known = rest.p50_limits.map(|limits| {
                let limits = Limits { low: limits.low_seconds, high: limits.high_seconds };
                let others = row.calls.saturating_sub(1);
                Spread::Known(Uncertainty::of_limits(rest.p50_seconds, limits, others))
            });
            // With enough calls, only reports of old versions lack the limits.
            let unknown = if row.calls > FEWEST { Spread::NotRecorded } else { Spread::TooFew };
            (rest.p50_seconds, known.unwrap_or(unknown))
        }
    };
    Sample { value, spread, calls: row.calls, share }
}

/// Appends the rows of the run as a whole. Their variation between runs cannot be derived from one
/// run.
pub(super) fn append_run(rows: &mut Rows, header: &ReportHeader) {
    rows.add(Subject::Run, "wall time", Sample::alone(header.wall_seconds, 1, 1.0));
    if let Some(startup) = &header.startup {
        let seconds = startup.total_seconds;
        let sample = Sample::alone(seconds, 1, share(seconds, header.wall_seconds));
        rows.add(Subject::Run, "start-up of the process", sample);
    }
}

/// Appends the mean device time per call of each action.
pub(super) fn append_device_times(
    rows: &mut Rows,
    actions: impl Iterator<Item = (String, Option<DeviceTime>)>,
    seconds: f64,
) {
    for (label, device) in actions {
        let Some(device) = device else { continue };
        let share = share(device.total_seconds, seconds);
        let sample = Sample::alone(device.mean_seconds(), device.calls, share);
        rows.add(Subject::ActionsOnDevice, label, sample);
    }
}

/// Appends the mean time per call of each device region.
pub(super) fn append_regions(rows: &mut Rows, regions: &[DeviceRegion], seconds: f64) {
    for region in regions {
        let share = share(region.total_seconds, seconds);
        let sample = Sample::alone(region.mean_seconds(), region.calls, share);
        rows.add(Subject::DeviceRegions, region.label(), sample);
    }
}
