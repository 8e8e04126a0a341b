//! Replacement of a slow rank's times by those of the other ranks.

use mlprof_report::ranks::median;
use rustc_hash::FxHashMap;

use super::graph::NO_SLICE;
use super::replay::Factors;
use super::{Error, WhatIf};
use crate::trace::Category;

/// Time in nanoseconds by category and name.
type Times<'a> = FxHashMap<(Category, &'a str), i64>;

/// Scales the work of a rank so that each name takes the median time of the other ranks.
/// Collectives keep their times, because they wait for other ranks.
pub(super) fn apply(what_if: &WhatIf<'_>, factors: &mut Factors, rank: u32) -> Result<(), Error> {
    let mut own = Times::default();
    let mut others: FxHashMap<u32, Times<'_>> = FxHashMap::default();
    for node in &what_if.graph.nodes {
        let Some((of_rank, name, communicates)) = name_of(what_if, node.slice) else { continue };
        if !communicates {
            let times = if of_rank == rank { &mut own } else { others.entry(of_rank).or_default() };
            *times.entry(name).or_default() += node.end - node.ready;
        }
    }
    if own.is_empty() || others.is_empty() {
        return Err(Error::UnknownRank(rank));
    }
    let usual = |name: &(Category, &str)| {
        median(others.values().map(|times| times.get(name).copied().unwrap_or(0)).collect())
    };
    let scales: Times<'_> = own.keys().map(|name| (*name, usual(name))).collect();
    for slice in 0..what_if.slices as u32 {
        let Some((of_rank, name, communicates)) = name_of(what_if, slice) else { continue };
        let own = own.get(&name).copied().unwrap_or(0);
        if of_rank == rank && !communicates && own > 0 {
            factors.of_slices[slice as usize] *= scales[&name] as f64 / own as f64;
        }
    }
    Ok(())
}

/// Returns the rank and the name of a slice, and whether it waits for other ranks.
fn name_of<'a>(what_if: &WhatIf<'a>, slice: u32) -> Option<(u32, (Category, &'a str), bool)> {
    if slice == NO_SLICE {
        return None;
    }
    let after = what_if.traces.partition_point(|loaded| loaded.first_slice <= slice);
    let loaded = &what_if.traces[after.checked_sub(1)?];
    let place = (slice - loaded.first_slice) as usize;
    let slice = &loaded.trace.slices[place];
    let name = (slice.category, loaded.trace.name(slice));
    Some((loaded.trace.info.rank, name, loaded.communicates(place)))
}
