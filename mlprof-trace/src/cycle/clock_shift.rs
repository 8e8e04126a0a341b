//! By how much the clocks of devices are wrong, as their launches tell.

use rustc_hash::FxHashMap;

use super::Cycle;
use mlprof_events::{DeviceEvent, TimingMethod};

/// A device's clock that goes wrong by more than this was not compared with the host's at all.
const LARGEST_SHIFT: i64 = 10_000_000;

/// How much later than its own clock says each device's events are, in nanoseconds. No kernel can run
/// before it was `launched`: by how much a device's events seem to is the least by which its clock must be
/// wrong.
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

/// How long before its launch an event ran by its own clock, in nanoseconds.
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
