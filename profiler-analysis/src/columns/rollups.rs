//! Sums per step.

use rustc_hash::FxHashMap;

use super::slices::Order;
use crate::host::steps::Step;
use crate::sweep;
use crate::trace::{Category, Name, Trace};

/// A row of `ops`.
pub(super) struct OpSums {
    pub(super) step: Option<u64>,
    pub(super) category: Category,
    pub(super) name: Name,
    pub(super) count: i64,
    pub(super) sum: i64,
    pub(super) own: i64,
    pub(super) min: i64,
    pub(super) max: i64,
}

/// By step, category and name.
pub(super) fn ops(trace: &Trace, order: &Order) -> Vec<OpSums> {
    let mut sums: FxHashMap<(Option<u64>, Category, Name), OpSums> = FxHashMap::default();
    for (place, slice) in trace.slices.iter().enumerate() {
        let (step, category, name) = (order.step(place), slice.category, slice.name);
        let new =
            || OpSums { step, category, name, count: 0, sum: 0, own: 0, min: i64::MAX, max: 0 };
        let of = sums.entry((step, category, name)).or_insert_with(new);
        of.count += 1;
        of.sum += slice.duration;
        of.own += slice.self_duration;
        (of.min, of.max) = (of.min.min(slice.duration), of.max.max(slice.duration));
    }
    let mut rows: Vec<OpSums> = sums.into_values().collect();
    rows.sort_by_key(|row| (row.step, row.category, row.name));
    rows
}

/// A row of `stages`.
pub(super) struct StageSum {
    pub(super) step: u64,
    pub(super) ord: i64,
    pub(super) action: Name,
    pub(super) duration: i64,
}

/// The actions directly inside of each step, in the order in which each was first; the rest comes last.
/// They add up to the step.
pub(super) fn stages(
    trace: &Trace,
    steps: &[Step],
    is_action: impl Fn(usize) -> bool,
) -> Vec<StageSum> {
    let mut rows = Vec::new();
    for step in steps {
        let Some(number) = step.number else { continue };
        let mut sums: Vec<(Name, i64)> = Vec::new();
        let mut rest = 0;
        sweep::innermost(trace, step.track, (step.start, step.end), |start, end, innermost| {
            // The outermost action that is inside of the step.
            let mut outermost = None;
            let mut around = innermost;
            while let Some(place) = around {
                if is_action(place) && trace.slices[place].start >= step.start {
                    outermost = Some(trace.slices[place].name);
                }
                around = trace.slices[place].parent();
            }
            let Some(action) = outermost else {
                rest += end - start;
                return;
            };
            match sums.iter_mut().find(|(name, _)| *name == action) {
                Some((_, sum)) => *sum += end - start,
                None => sums.push((action, end - start)),
            }
        });
        let all = sums.into_iter().chain([(Name::EMPTY, rest)]);
        rows.extend((0..).zip(all).map(|(ord, (action, duration))| StageSum {
            step: number,
            ord,
            action,
            duration,
        }));
    }
    rows
}
