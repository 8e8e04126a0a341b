//! How fast memory was copied and filled.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::union::Union;
use super::window::Window;
use super::work::Device;
use crate::answers::Bandwidth;
use crate::trace::{Category, Name, Slice, Trace};

/// Those that began in the window by what the trace calls them, the longest first.
pub(super) fn of(trace: &Trace, device: &Device, window: &Window) -> Vec<Bandwidth> {
    let mut by_name: FxHashMap<Name, Vec<&Slice>> = FxHashMap::default();
    let is_copy =
        |slice: &&Slice| matches!(slice.category, Category::GpuMemcpy | Category::GpuMemset);
    let slices = device.slices(trace).filter(|slice| window.contains(slice.start));
    for slice in slices.filter(is_copy) {
        by_name.entry(slice.name).or_default().push(slice);
    }
    let mut rows: Vec<Bandwidth> =
        by_name.into_iter().map(|(name, slices)| row(trace, name, &slices)).collect();
    rows.sort_by(|one, other| {
        let key = |row: &Bandwidth| Reverse(row.busy_ns);
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    rows
}

fn row(trace: &Trace, name: Name, slices: &[&Slice]) -> Bandwidth {
    let bytes_of = |slice: &Slice| trace.details(slice).map_or(0, |details| details.bytes);
    let bytes = slices.iter().map(|slice| bytes_of(slice)).sum::<u64>();
    let busy = Union::of(slices.iter().map(|slice| (slice.start, slice.end())).collect()).length();
    // What runs at once is added up.
    let mut changes: Vec<(i64, bool, f64)> = Vec::new();
    for slice in slices.iter().filter(|slice| slice.duration > 0) {
        let rate = bytes_of(slice) as f64 / slice.duration as f64;
        changes.extend([(slice.start, true, rate), (slice.end(), false, rate)]);
    }
    changes.sort_by_key(|(time, begins, _)| (*time, *begins));
    let (mut now, mut running, mut most) = (0.0_f64, 0_u32, 0.0_f64);
    for (_, begins, rate) in changes {
        running = if begins { running + 1 } else { running.saturating_sub(1) };
        // Nothing is left of rounding where nothing runs.
        now = if running == 0 { 0.0 } else { now + if begins { rate } else { -rate } };
        most = most.max(now);
    }
    Bandwidth {
        name: trace.names.text(name).to_owned(),
        count: slices.len() as u64,
        bytes,
        busy_ns: busy,
        mean_gb_per_s: if busy > 0 { bytes as f64 / busy as f64 } else { 0.0 },
        max_gb_per_s: most,
    }
}
