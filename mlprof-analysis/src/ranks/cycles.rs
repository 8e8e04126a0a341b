//! Numbering of a rank's cycles if its files do not contain cycle numbers.
//!
//! PyTorch writes one file per cycle of its schedule, without a number. Files of one rank are
//! cycles if they were recorded one after the other and share no step.

use crate::Error;
use std::collections::{BTreeMap, BTreeSet};

use super::RankFacts;

/// Returns the traces by rank and cycle. Each rank has each cycle once.
pub(super) fn numbered(traces: &[RankFacts]) -> Result<Vec<RankFacts>, Error> {
    let mut ranks: BTreeMap<(u32, Option<&str>), Vec<&RankFacts>> = BTreeMap::new();
    for one in traces {
        ranks.entry((one.info.rank, one.info.stage.as_deref())).or_default().push(one);
    }
    let mut numbered = Vec::with_capacity(traces.len());
    for mut files in ranks.into_values() {
        files.sort_by_key(|one| one.info.cycle);
        let is_numbered = files.windows(2).all(|pair| pair[0].info.cycle != pair[1].info.cycle);
        if is_numbered {
            numbered.extend(files.into_iter().cloned());
            continue;
        }
        files.sort_by_key(|one| one.window);
        let first = files.iter().map(|one| one.info.cycle).min().unwrap_or(0);
        let mut steps = BTreeSet::new();
        for (place, one) in files.iter().enumerate() {
            let before = place.checked_sub(1).map(|before| files[before]);
            let own: BTreeSet<u64> = one.steps.iter().map(|(number, ..)| *number).collect();
            let overlaps =
                before.is_some_and(|it| one.window.0 < it.window.1 || one.window == it.window);
            if overlaps || !steps.is_disjoint(&own) {
                return Err(two_of_one_rank(before.unwrap_or(one), one));
            }
            steps.extend(own);
            let mut one = (*one).clone();
            one.info.cycle = first + place as u64;
            numbered.push(one);
        }
    }
    numbered.sort_by_key(|one| (one.info.rank, one.info.cycle));
    Ok(numbered)
}

fn two_of_one_rank(first: &RankFacts, second: &RankFacts) -> Error {
    let (rank, has_rank) = (first.info.rank, first.info.has_rank && second.info.has_rank);
    let (first, second) = (first.file.clone(), second.file.clone());
    match has_rank {
        true => Error::TwoOfOneRank { rank, first, second },
        false => Error::NoRank { first, second },
    }
}
