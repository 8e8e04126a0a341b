//! Memory timeline in a report: a few moments, and the memory at the peak.

use super::{CATEGORIES, DeviceTimeline, MemoryTimeline};
use crate::cycle::{Cycle, Track};
use mlprof_events::OrderExt;
use mlprof_report::tensor::MemoryOverTime;
use mlprof_report::tensor::memory_over_time::{
    CategoryOverTime, MOST_MOMENTS, MemoryPeak, MemoryStep, highest_moments,
};

/// Maximum number of rows for a peak. The others are summed.
const MOST_ROWS: usize = 32;
/// Maximum number of steps to list.
const MOST_STEPS: usize = 100;
/// Maximum number of changes in a cycle for which a report contains a timeline. Building it takes
/// about 150 bytes per change.
const MOST_CHANGES: usize = 2_000_000;

/// Replaces the memory of earlier cycles by that of `cycle` for each device on which its peak is
/// higher.
///
/// *Cost*: about 1 µs per allocation, or none if memory was not recorded.
pub(crate) fn keep_fullest(kept: &mut Vec<MemoryOverTime>, cycle: &Cycle) {
    let changes: usize = cycle.tracks().iter().map(Track::memory_event_count).sum();
    if changes == 0 || changes > MOST_CHANGES {
        return;
    }
    let timeline = cycle.memory_timeline();
    for device in &timeline.devices {
        match kept.iter_mut().find(|known| known.device == device.device) {
            Some(known) if known.peak.bytes >= device.peak.bytes => {}
            Some(known) => *known = over_time(cycle.number, &timeline, device),
            None => kept.push(over_time(cycle.number, &timeline, device)),
        }
    }
    kept.order_by_key(|memory| memory.device);
}

fn over_time(cycle: u64, timeline: &MemoryTimeline, device: &DeviceTimeline) -> MemoryOverTime {
    let kept = highest_moments(&device.times_us, |moment| device.total(moment), MOST_MOMENTS);
    let at_peak = |category| -> u64 {
        let rows = device.peak.alive.iter().filter(|row| row.category == category);
        rows.map(|row| row.bytes).sum()
    };
    let categories = CATEGORIES.into_iter().filter_map(|category| {
        let levels = device.levels.iter().find(|levels| levels.category == category)?;
        Some(CategoryOverTime {
            category,
            at_peak_bytes: at_peak(category),
            at_end_bytes: levels.bytes.last().copied().unwrap_or(0),
            bytes: kept.iter().map(|moment| levels.bytes[*moment]).collect(),
        })
    });
    let is_few = timeline.steps.len() <= MOST_STEPS;
    let steps = timeline.steps.iter().filter(|_| is_few);
    MemoryOverTime {
        device: device.device,
        cycle,
        duration_seconds: seconds(timeline.duration_us),
        before_bytes: device.before,
        allocations: device.allocations,
        allocated_bytes: device.allocated_bytes,
        dropped: timeline.dropped,
        steps: steps
            .map(|step| MemoryStep { number: step.step, start_seconds: seconds(step.start_us) })
            .collect(),
        times_seconds: kept.iter().map(|moment| seconds(device.times_us[*moment])).collect(),
        categories: categories.collect(),
        peak: peak(timeline, device),
    }
}

fn peak(timeline: &MemoryTimeline, device: &DeviceTimeline) -> MemoryPeak {
    let time = device.peak.time_us;
    let step = timeline.steps.iter().find(|step| step.start_us <= time && time <= step.end_us);
    let (shown, others) = device.peak.alive.split_at(device.peak.alive.len().min(MOST_ROWS));
    MemoryPeak {
        time_seconds: seconds(time),
        step: step.map(|step| step.step),
        bytes: device.peak.bytes,
        rows: shown.to_vec(),
        others_allocations: others.iter().map(|alive| alive.allocations).sum(),
        others_bytes: others.iter().map(|alive| alive.bytes).sum(),
    }
}

fn seconds(microseconds: f64) -> f64 {
    microseconds * 1e-6
}
