//! Speed of collectives after the last rank has joined.
//!
//! A rank that joins early waits within the collective, so the last rank to join has the shortest
//! duration.

use std::collections::BTreeMap;

use super::RankFacts;
use crate::answers::CollectiveTimes;
use crate::classify::Meanings;
use crate::device::collectives::{Collectives, Kind, rows};
use crate::device::work::DeviceWork;
use crate::trace::Trace;

/// Durations of a rank's collectives by kind, in nanoseconds and in order.
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

/// Returns the collectives of several ranks, with the duration of the last rank to join. A kind is
/// omitted if the ranks disagree on its number of collectives, because these cannot be matched.
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
