//! Call paths, which are nested open actions and functions, as small numbers.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicI64, AtomicU32, AtomicU64, Ordering};

use rustc_hash::FxHashMap;

use crate::Action;
use mlprof_events::forking::{Mutex, MutexGuard};

/// Maximum number of distinct paths, which bounds the memory. Further calls count for the enclosing
/// path.
pub(super) const MAX_PATHS: usize = 1 << 16;

/// Path without open calls.
pub(super) const ROOT: u32 = 0;

/// All paths of the process, numbered in order of first occurrence. A call of an action that is
/// already on the path leads back to it, so recursion creates no new paths.
pub(super) struct Paths {
    nodes: Box<[Node]>,
    count: AtomicU32,
    overflowed: AtomicU64,
    numbers: Mutex<FxHashMap<(u32, u32), u32>>,
}

/// One path.
///
/// *Invariant*: `parent` and `action` are written once, before the path's number is returned.
struct Node {
    parent: AtomicU32,
    /// [`Action::number`], or 0 in the root.
    action: AtomicU32,
    now: Level,
    /// Blocks that were alive when the process had the most live bytes.
    at_peak: Level,
    /// Bytes and number of large copies on this path.
    copied: Level,
}

/// Bytes and number of blocks of a path, without nested paths.
struct Level {
    bytes: AtomicI64,
    blocks: AtomicI64,
}

impl Level {
    #[inline]
    fn add(&self, bytes: i64, blocks: i64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.blocks.fetch_add(blocks, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.bytes.store(0, Ordering::Relaxed);
        self.blocks.store(0, Ordering::Relaxed);
    }

    fn copy_from(&self, other: &Self) {
        self.bytes.store(other.bytes.load(Ordering::Relaxed), Ordering::Relaxed);
        self.blocks.store(other.blocks.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

impl Paths {
    pub(super) fn new() -> Self {
        let nodes = Box::<[Node]>::new_zeroed_slice(MAX_PATHS);
        // SAFETY: all fields are atomic integers, for which all-zero bytes are valid. Zeroed pages
        // are not backed by memory until they are used.
        let nodes = unsafe { nodes.assume_init() };
        Self {
            nodes,
            count: AtomicU32::new(1),
            overflowed: AtomicU64::new(0),
            numbers: Mutex::default(),
        }
    }

    fn numbers(&self) -> MutexGuard<'_, FxHashMap<(u32, u32), u32>> {
        self.numbers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the path of `action` inside `parent`. *Cost*: a lock and a hash lookup. Threads
    /// cache the result.
    pub(super) fn inside(&self, parent: u32, action: Action) -> u32 {
        let key = (parent, action.number());
        let mut numbers = self.numbers();
        if let Some(known) = numbers.get(&key) {
            return *known;
        }
        let number = match self.on_the_way_down(parent, action) {
            Some(known) => known,
            None => {
                let number = self.count.load(Ordering::Relaxed);
                let Some(node) = self.nodes.get(number as usize) else {
                    self.overflowed.fetch_add(1, Ordering::Relaxed);
                    return parent;
                };
                node.parent.store(parent, Ordering::Relaxed);
                node.action.store(action.number(), Ordering::Relaxed);
                self.count.store(number + 1, Ordering::Release);
                number
            }
        };
        numbers.insert(key, number);
        number
    }

    fn on_the_way_down(&self, from: u32, action: Action) -> Option<u32> {
        let mut number = from;
        while number != ROOT {
            let node = &self.nodes[number as usize];
            if node.action.load(Ordering::Relaxed) == action.number() {
                return Some(number);
            }
            number = node.parent.load(Ordering::Relaxed);
        }
        None
    }

    /// Adds an allocated block to a path, or removes a freed one with negative values.
    #[inline]
    pub(super) fn add(&self, path: u32, bytes: i64, blocks: i64) {
        if let Some(node) = self.nodes.get(path as usize) {
            node.now.add(bytes, blocks);
        }
    }

    /// Adds a copy to a path.
    pub(super) fn add_copy(&self, path: u32, bytes: i64) {
        if let Some(node) = self.nodes.get(path as usize) {
            node.copied.add(bytes, 1);
        }
    }

    /// Resets the copies of all paths.
    pub(super) fn forget_copies(&self) {
        self.known().iter().for_each(|node| node.copied.clear());
    }

    fn known(&self) -> &[Node] {
        &self.nodes[..self.count.load(Ordering::Acquire) as usize]
    }

    /// Saves the current blocks as those at the peak. Only one thread may call this at a time.
    pub(super) fn copy_peak(&self) {
        self.known().iter().for_each(|node| node.at_peak.copy_from(&node.now));
    }

    /// Resets all paths. No thread may add meanwhile.
    pub(super) fn clear(&self) {
        for node in self.known() {
            [&node.now, &node.at_peak, &node.copied].into_iter().for_each(Level::clear);
        }
        self.overflowed.store(0, Ordering::Relaxed);
    }

    /// Returns the blocks alive at the peak, for each path that allocated some itself.
    pub(super) fn at_peak(&self) -> Vec<Alive> {
        self.levels(|node| &node.at_peak)
    }

    /// Returns the copies, for each path that copied data itself.
    pub(super) fn copies(&self) -> Vec<Alive> {
        self.levels(|node| &node.copied)
    }

    fn levels(&self, pick: impl Fn(&Node) -> &Level) -> Vec<Alive> {
        let levels = self.known().iter().map(pick).zip(0..);
        let alive = levels.map(|(level, path)| Alive {
            path,
            bytes: read(&level.bytes),
            blocks: read(&level.blocks),
        });
        alive.filter(|alive| alive.blocks > 0).collect()
    }

    /// Returns the actions of a path, outermost first.
    pub(super) fn actions(&self, path: u32) -> Vec<Action> {
        let mut actions = Vec::new();
        let mut number = path;
        while number != ROOT
            && let Some(node) = self.known().get(number as usize)
        {
            actions.extend(Action::from_number(node.action.load(Ordering::Relaxed)));
            number = node.parent.load(Ordering::Relaxed);
        }
        actions.reverse();
        actions
    }

    /// Returns the number of calls that could not get a path of their own.
    pub(super) fn overflowed(&self) -> u64 {
        self.overflowed.load(Ordering::Relaxed)
    }
}

fn read(level: &AtomicI64) -> u64 {
    u64::try_from(level.load(Ordering::Relaxed)).unwrap_or(0)
}

/// Live blocks of one path, without nested paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Alive {
    pub(super) path: u32,
    pub(super) bytes: u64,
    pub(super) blocks: u64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn recursion_leads_back_up() {
        let paths = Paths::new();
        let [a, b] = ["paths-a", "paths-b"].map(Action::new);
        let outer = paths.inside(ROOT, a);
        let inner = paths.inside(outer, b);
        assert_eq!(paths.inside(inner, a), outer);
        assert_eq!(paths.inside(inner, b), inner);
        assert_eq!(paths.inside(ROOT, a), outer);
        assert_ne!(paths.inside(ROOT, b), inner, "another place");
        assert_eq!(paths.actions(inner), [a, b]);
        assert_eq!(paths.actions(ROOT), []);
    }

    #[test]
    fn beyond_the_limit_the_path_around_it_counts() {
        let paths = Paths::new();
        let action = Action::new("paths-many");
        let first = paths.inside(ROOT, action);
        for number in 0..MAX_PATHS + 10 {
            paths.inside(first, Action::new(&format!("paths-{number}")));
        }
        let one_more = Action::new("paths-one-more");
        assert_eq!(paths.inside(first, one_more), first);
        assert_eq!(paths.overflowed(), 10 + 2 + 1);
    }
}
