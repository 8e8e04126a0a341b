//! Kernels, copies and fills grouped by name and by category.

use std::cmp::Reverse;

use mlprof_report::ranks::median;
use rustc_hash::{FxHashMap, FxHashSet};

use super::union::Union;
use super::window::Window;
use super::work::{Device, DeviceWork};
use crate::answers::{CategoryTimes, KernelCategory, KernelTimes};
use crate::classify::Meanings;
use crate::kernel_category;
use crate::trace::{Category, Name, Trace};

#[derive(Default)]
struct Sum {
    calls: u64,
    total: i64,
    min: i64,
    max: i64,
    recomputed: i64,
    durations: Vec<i64>,
    /// Time by the innermost op around the launch.
    ops: FxHashMap<Name, i64>,
    modules: FxHashMap<Name, i64>,
}

impl Sum {
    fn add(&mut self, duration: i64) {
        self.min = if self.calls == 0 { duration } else { self.min.min(duration) };
        self.max = self.max.max(duration);
        self.total += duration;
        self.calls += 1;
        self.durations.push(duration);
    }
}

/// Returns the work of a device grouped by name and by category, most time first. Work counts if it
/// was launched in the window. Work with an unknown launch counts if it began in the window.
///
/// `is_recomputed` is `true` for slices of forward ops that backward runs again.
pub(super) fn of(
    trace: &Trace,
    meanings: &Meanings,
    is_recomputed: &[bool],
    work: &DeviceWork,
    device: &Device,
    window: &Window,
) -> (Vec<KernelTimes>, Vec<CategoryTimes>) {
    let mut sums: FxHashMap<(Category, Name), Sum> = FxHashMap::default();
    let mut communicating: FxHashSet<Name> = FxHashSet::default();
    let mut all = Vec::new();
    let places = device.streams.iter().flat_map(|stream| &stream.work);
    for place in places {
        let slice = &trace.slices[*place as usize];
        let call = work.call(*place).map(|call| call as usize);
        if !window.contains(call.map_or(slice.start, |call| trace.slices[call].start)) {
            continue;
        }
        all.push((slice.start, slice.end()));
        if meanings.communicates(slice) {
            communicating.insert(slice.name);
        }
        let sum = sums.entry((slice.category, slice.name)).or_default();
        sum.add(slice.duration);
        let Some(call) = call else { continue };
        if let Some(op) = meanings.op(call).map(|op| &trace.slices[op]) {
            *sum.ops.entry(op.name).or_default() += slice.duration;
        }
        if let Some(module) = meanings.module(call) {
            *sum.modules.entry(module).or_default() += slice.duration;
        }
        sum.recomputed += if is_recomputed[call] { slice.duration } else { 0 };
    }
    let busy = Union::of(all).length();
    let share = |part: i64| if busy > 0 { part as f64 / busy as f64 } else { 0.0 };
    let mut durations: FxHashMap<KernelCategory, Vec<i64>> = FxHashMap::default();
    let rows = sums.into_iter().map(|((category, name), sum)| {
        let text = |name: Name| trace.names.text(name).to_owned();
        let (op, module) = (longest(trace, &sum.ops), longest(trace, &sum.modules));
        let category = match category == Category::Kernel && communicating.contains(&name) {
            true => KernelCategory::Communication,
            false => {
                let op = op.map(|op| trace.names.text(op));
                kernel_category::of(category, trace.names.text(name), op)
            }
        };
        durations.entry(category).or_default().extend(&sum.durations);
        KernelTimes {
            name: text(name),
            category,
            calls: sum.calls,
            total_ns: sum.total,
            mean_ns: mean(sum.total, sum.calls),
            min_ns: sum.min,
            max_ns: sum.max,
            busy_share: share(sum.total),
            recomputed_ns: sum.recomputed,
            op: op.map(text),
            ops: sum.ops.len() as u64,
            module: module.map(text),
            modules: sum.modules.len() as u64,
        }
    });
    let mut rows: Vec<KernelTimes> = rows.collect();
    rows.sort_by(|one, other| {
        let key = |row: &KernelTimes| (Reverse(row.total_ns), row.category);
        key(one).cmp(&key(other)).then_with(|| one.name.cmp(&other.name))
    });
    let mut categories = by_category(&rows, share);
    for row in &mut categories {
        row.median_ns = median(durations.remove(&row.category).unwrap_or_default());
    }
    (rows, categories)
}

/// Returns the sums by category, most time first.
fn by_category(rows: &[KernelTimes], share: impl Fn(i64) -> f64) -> Vec<CategoryTimes> {
    let mut sums: Vec<CategoryTimes> = Vec::new();
    for row in rows {
        let known = sums.iter().position(|sum| sum.category == row.category);
        let place = known.unwrap_or_else(|| {
            sums.push(CategoryTimes { category: row.category, ..CategoryTimes::default() });
            sums.len() - 1
        });
        let sum = &mut sums[place];
        sum.calls += row.calls;
        sum.total_ns += row.total_ns;
        sum.recomputed_ns += row.recomputed_ns;
    }
    sums.iter_mut().for_each(|sum| sum.busy_share = share(sum.total_ns));
    sums.sort_by_key(|sum| (Reverse(sum.total_ns), sum.category));
    sums
}

/// Returns the name with the most time. If several are equal, the alphabetically first one is
/// returned.
fn longest(trace: &Trace, times: &FxHashMap<Name, i64>) -> Option<Name> {
    let key = |(name, time): &(&Name, &i64)| (**time, Reverse(trace.names.text(**name)));
    times.iter().max_by_key(key).map(|(name, _)| *name)
}

/// Returns the mean, rounded to the nearest nanosecond.
fn mean(total: i64, calls: u64) -> i64 {
    (total as f64 / calls.max(1) as f64).round() as i64
}
