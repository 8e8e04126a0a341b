//! Estimate of the error of device clocks, from the launch times of their events.

use rustc_hash::FxHashMap;

use super::Cycle;
use mlprof_events::{DeviceEvent, TimingMethod};

/// Largest shift in nanoseconds. A device clock with a larger error was not synchronised with the
/// host's clock at all.
const LARGEST_SHIFT: i64 = 10_000_000;

/// Returns the shift of each device's events relative to its own clock, in nanoseconds. A kernel
/// cannot run before it was `launched`. The largest violation on a device is therefore the minimum
/// error of its clock.
pub(crate) fn clock_shifts(
    cycle: &Cycle,
    launched: impl Fn(&DeviceEvent) -> Option<i64>,
) -> FxHashMap<u32, i64> {
    let mut shifts = FxHashMap::default();
    for event in &cycle.device_events {
        if let Some(early) = early(cycle, event, &launched)
            && (1..=LARGEST_SHIFT).contains(&early)
        {
            let shift = shifts.entry(event.device).or_default();
            *shift = early.max(*shift);
        }
    }
    shifts
}

/// Returns by how many nanoseconds an event ran before its launch, by its own clock.
pub(crate) fn early(
    cycle: &Cycle,
    event: &DeviceEvent,
    launched: impl Fn(&DeviceEvent) -> Option<i64>,
) -> Option<i64> {
    if event.method == TimingMethod::None {
        return None;
    }
    Some(launched(event)?.saturating_sub(cycle.nanoseconds_since_start(event.start)))
}
