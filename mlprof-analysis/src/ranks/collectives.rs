//! How fast collectives are once the last rank has come.
//!
//! A rank that comes early waits within the collective, so the rank that comes last takes the
//! shortest time.

use std::collections::BTreeMap;

use super::RankFacts;
use crate::answers::CollectiveTimes;
use crate::device::collectives::{Collectives, Kind, rows};
use crate::device::work::DeviceWork;
use crate::meaning::Meanings;
use crate::trace::Trace;

/// Durations of a rank's collectives by their kind, in nanoseconds and in their order.
pub(super) type OfRank = BTreeMap<Kind, Vec<i64>>;

pub(super) fn of_rank(trace: &Trace, meanings: &Meanings) -> OfRank {
    let correlations = trace.correlations();
    let work = DeviceWork::of(trace, &correlations);
    let mut found = OfRank::new();
    for device in &work.devices {
        let Collectives { kinds, all } = Collectives::of(trace, meanings, &correlations, device);
        for one in all {
            let durations = found.entry(kinds[one.kind].clone()).or_default();
            durations.push(one.end - one.start);
        }
    }
    found
}

/// The collectives that several ranks took part in, with the duration of the rank that came last.
/// Where ranks differ in how many of a kind they have, nothing tells which of them belong together:
/// these are left out.
pub(super) fn met(traces: &[&RankFacts]) -> Vec<CollectiveTimes> {
    let mut by_kind: BTreeMap<_, Vec<&[i64]>> = BTreeMap::new();
    for one in traces {
        for (kind, durations) in one.collectives.iter().filter(|(kind, _)| kind.has_all_ranks()) {
            let recorded = (one.info.stage.as_deref(), one.info.cycle);
            by_kind.entry((recorded, kind)).or_default().push(durations);
        }
    }
    let mut met = Vec::new();
    for ((_, kind), of_ranks) in by_kind {
        let count = of_ranks[0].len();
        if of_ranks.len() > 1 && of_ranks.iter().all(|durations| durations.len() == count) {
            let shortest = |place: usize| of_ranks.iter().map(|of_rank| of_rank[place]).min();
            met.extend((0..count).filter_map(shortest).map(|duration| (kind, duration)));
        }
    }
    rows(met.into_iter())
}
