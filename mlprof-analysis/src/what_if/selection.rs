//! Slices that a name of a change selects.

use rustc_hash::FxHashSet;

use super::loaded::LoadedTrace;
use crate::answers::WorkKind;
use crate::trace::Name;

/// Name that selects waits for data.
pub(super) const DATA: &str = "data";
/// Name that selects collectives.
const COLLECTIVES: &str = "collectives";
/// Name that selects copies and fills of devices.
const COPIES: &str = "copies";
/// Maximum number of near names in an error.
const NEAR: usize = 5;

/// Returns `true` for each selected slice of a trace.
///
/// A name selects everything inside of slices with this name, and the device work launched there. A
/// module's name also selects its backward ops.
pub(super) fn select(loaded: &LoadedTrace<'_>, name: &str) -> Vec<bool> {
    let (trace, meanings) = (loaded.trace, &loaded.meanings);
    let text: Option<Name> = trace.names.find(name);
    let is_group = |place: usize| {
        let slice = &trace.slices[place];
        match name {
            DATA => meanings.is_in_data(place),
            COLLECTIVES => loaded.communicates(place),
            COPIES => meanings.work(slice) == Some(WorkKind::Memory),
            _ => false,
        }
    };
    let mut selected = trace.inherited(false, |place, slice, around| {
        let is_named = text.is_some_and(|text| {
            slice.name == text || meanings.module(place).is_some_and(|module| module == text)
        });
        around || is_named || is_group(place)
    });
    for place in 0..selected.len() {
        let launched = loaded.work.call(place as u32); // fewer than 2^32
        selected[place] |= launched.is_some_and(|call| selected[call as usize]);
    }
    selected
}

/// Returns the names that resemble a name, nearest first.
pub(super) fn near_names(traces: &[LoadedTrace<'_>], name: &str) -> Vec<String> {
    let wanted = name.to_lowercase();
    let mut seen = FxHashSet::default();
    let all = traces.iter().flat_map(|loaded| {
        let names = loaded.trace.slices.iter().map(|slice| slice.name);
        names.map(|name| loaded.trace.names.text(name))
    });
    let all = all.chain([DATA, COLLECTIVES, COPIES]).filter(|name| seen.insert(*name));
    let mut scored: Vec<(usize, &str)> = all
        .map(|name| {
            let lower = name.to_lowercase();
            let is_part = lower.contains(&wanted) || wanted.contains(&lower);
            (if is_part { 0 } else { distance(&wanted, &lower) }, name)
        })
        .filter(|(distance, _)| *distance <= wanted.chars().count().div_ceil(2))
        .collect();
    scored.sort_unstable();
    scored.into_iter().take(NEAR).map(|(_, name)| name.to_owned()).collect()
}

/// Returns the edit distance of two texts.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (line, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = line + 1;
        for (column, of_other) in other.iter().enumerate() {
            let replaced = diagonal + usize::from(letter != *of_other);
            diagonal = row[column + 1];
            row[column + 1] = replaced.min(diagonal + 1).min(row[column] + 1);
        }
    }
    row[other.len()]
}

#[cfg(test)]
mod tests {
    use super::distance;

    #[test]
    fn distances_count_edits() {
        assert_eq!(distance("matmul", "matmul"), 0);
        assert_eq!(distance("matmul", "mat_mull"), 2);
        assert_eq!(distance("", "abc"), 3);
    }
}
