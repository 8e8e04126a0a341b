//! Detection of circular imports.

use std::collections::{BTreeMap, BTreeSet};

/// Pairs of importing and imported module, as module paths: `tensor/profile`.
pub type Imports = BTreeSet<(String, String)>;

/// Returns groups of files that import each other. A file and the files in its own folder may do
/// so.
pub fn circles(imports: &Imports) -> Vec<String> {
    let is_below = |inner: &str, outer: &str| {
        inner.strip_prefix(outer).is_some_and(|rest| rest.starts_with('/'))
    };
    let others = imports.iter().filter(|(from, to)| !is_below(from, to) && !is_below(to, from));
    strongly_connected(&others.cloned().collect())
}

/// Returns groups of folders, including their subfolders, that import each other.
pub fn room_circles(imports: &Imports) -> Vec<String> {
    let mut by_folder: BTreeMap<String, Imports> = BTreeMap::new();
    for (from, to) in imports {
        let (from, to): (Vec<_>, Vec<_>) = (from.split('/').collect(), to.split('/').collect());
        let common = from.iter().zip(&to).take_while(|(one, other)| one == other).count();
        if let (Some(_), Some(_)) = (from.get(common), to.get(common)) {
            let rooms = (from[..=common].join("/"), to[..=common].join("/"));
            by_folder.entry(from[..common].join("/")).or_default().insert(rooms);
        }
    }
    by_folder.values().flat_map(strongly_connected).collect()
}

/// Returns the strongly connected components with more than one member, sorted alphabetically.
fn strongly_connected(imports: &Imports) -> Vec<String> {
    let mut next: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (from, to) in imports {
        next.entry(from).or_default().push(to);
    }
    let reached = |start: &str| {
        let mut seen: BTreeSet<&str> = BTreeSet::new();
        let mut open: Vec<&str> = next.get(start).cloned().unwrap_or_default();
        while let Some(one) = open.pop() {
            if seen.insert(one) {
                open.extend(next.get(one).into_iter().flatten());
            }
        }
        seen
    };
    let reached: BTreeMap<&str, BTreeSet<&str>> =
        next.keys().map(|start| (*start, reached(start))).collect();
    let leads = |from: &str, to: &str| reached.get(from).is_some_and(|seen| seen.contains(to));
    let sets: BTreeSet<Vec<&str>> = next
        .keys()
        .map(|one| {
            let set = next.keys().filter(|other| leads(one, other) && leads(other, one));
            set.copied().collect::<Vec<_>>()
        })
        .filter(|set| set.len() > 1)
        .collect();
    sets.into_iter().map(|set| set.join(", ")).collect()
}
