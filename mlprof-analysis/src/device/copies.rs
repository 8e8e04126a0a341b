//! Bandwidth of copies and fills.

use std::cmp::Reverse;

use rustc_hash::FxHashMap;

use super::union::Union;
use super::window::Window;
use super::work::Device;
use crate::answers::Bandwidth;
use crate::trace::{Category, Name, Slice, Trace};

/// Returns the copies and fills that began in the window, grouped by name, longest first.
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
    let bytes_of = |slice: &Slice| {
        // Missing sizes, as in ROCm's fills, are read as 0.
        trace.details(slice).map(|details| details.bytes).filter(|bytes| *bytes > 0)
    };
    let known: Vec<u64> = slices.iter().filter_map(|slice| bytes_of(slice)).collect();
    let span = |slice: &&Slice| (slice.start, slice.end());
    // A rate requires both the size and the duration of a copy.
    let timed: Vec<(&Slice, u64)> = slices
        .iter()
        .filter(|slice| slice.duration > 0)
        .filter_map(|slice| Some((*slice, bytes_of(slice)?)))
        .collect();
    let moved: u64 = timed.iter().map(|(_, bytes)| bytes).sum();
    let timed_ns = Union::of(timed.iter().map(|(slice, _)| span(slice)).collect()).length();
    Bandwidth {
        name: trace.names.text(name).to_owned(),
        count: slices.len() as u64,
        unknown: (slices.len() - known.len()) as u64,
        bytes: (!known.is_empty()).then(|| known.iter().sum()),
        busy_ns: Union::of(slices.iter().map(span).collect()).length(),
        mean_gb_per_s: (timed_ns > 0).then(|| moved as f64 / timed_ns as f64),
        max_gb_per_s: (timed_ns > 0).then(|| most(&timed)),
    }
}

/// Returns the largest sum of the rates of concurrent copies, in gigabytes per second.
fn most(timed: &[(&Slice, u64)]) -> f64 {
    let mut changes: Vec<(i64, bool, f64)> = Vec::with_capacity(2 * timed.len());
    for (slice, bytes) in timed {
        let rate = *bytes as f64 / slice.duration as f64;
        changes.extend([(slice.start, true, rate), (slice.end(), false, rate)]);
    }
    changes.sort_by_key(|(time, begins, _)| (*time, *begins));
    let (mut now, mut running, mut most) = (0.0_f64, 0_u32, 0.0_f64);
    for (_, begins, rate) in changes {
        running = if begins { running + 1 } else { running.saturating_sub(1) };
        // The sum is reset when no copy runs, so that rounding errors do not accumulate.
        now = if running == 0 { 0.0 } else { now + if begins { rate } else { -rate } };
        most = most.max(now);
    }
    most
}
