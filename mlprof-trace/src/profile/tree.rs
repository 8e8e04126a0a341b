//! The calling-context tree: every different way from the top of a thread down to an op, with the
//! numbers of all calls that went that way.

use rustc_hash::FxHashMap;

use super::modules::{ChainId, ModuleId, ModuleTable};
use mlprof_events::{Action, ActionKind, Direction, ShapeList};
use mlprof_report::internals::StepPart;

/// The number of a [`Node`]; a parent's is always lower than its children's.
pub(super) type NodeId = u32;

/// The parent of what is at the top.
pub(super) const NOWHERE: NodeId = NodeId::MAX;

/// Past this many different paths further ones are told apart by name alone, so that shapes that
/// never repeat cannot fill the memory.
const MOST_PATHS: usize = 1 << 18;

/// What tells one path from another with the same parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PathKey {
    pub(super) parent: NodeId,
    pub(super) action: Action,
    pub(super) shapes: ShapeList,
    pub(super) direction: Direction,
    /// The modules that a backward op's forward op ran in, if they are known.
    pub(super) forward_modules: Option<ChainId>,
}

impl PathKey {
    /// A forward path without shapes.
    pub(super) fn plain(parent: NodeId, action: Action) -> Self {
        let (shapes, direction) = (ShapeList::NONE, Direction::Forward);
        Self { parent, action, shapes, direction, forward_modules: None }
    }
}

/// One path and its calls.
#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) key: PathKey,
    pub(super) kind: ActionKind,
    /// The modules that it ran in, itself included.
    pub(super) modules: Option<ChainId>,
    /// The part of a step that it belongs to; `None`: the rest.
    pub(super) part: Option<StepPart>,
    pub(super) calls: Calls,
}

/// The calls of one path or of one row. All times in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    pub(super) count: u64,
    /// How often calls went on: polls of an async function after the first.
    pub(super) resumptions: u64,
    pub(super) total: u64,
    /// Without what ran inside on the same thread. Below 0 only while a track is gone through.
    pub(super) own: i64,
    /// When the first one began, [`u64::MAX`] without any, and how long it took.
    pub(super) first_started: u64,
    pub(super) first: u64,
    /// Of all but the first.
    pub(super) shortest: u64,
    pub(super) longest: u64,
    /// Their sum, and that of their squares.
    pub(super) rest: f64,
    pub(super) rest_squares: f64,
}

impl Default for Calls {
    fn default() -> Self {
        Self {
            count: 0,
            resumptions: 0,
            total: 0,
            own: 0,
            first_started: u64::MAX,
            first: 0,
            shortest: u64::MAX,
            longest: 0,
            rest: 0.0,
            rest_squares: 0.0,
        }
    }
}

impl Calls {
    /// One more call; its own time is added apart.
    #[inline]
    pub(super) fn add(&mut self, started: u64, duration: u64) {
        self.add_first(started, duration, self.measured() > 0);
        self.count += 1;
        self.total += duration;
    }

    /// A call that goes on. Its time is one of those that the first, the shortest and the longest are of.
    #[cold]
    pub(super) fn add_resumption(&mut self, started: u64, duration: u64) {
        self.add(started, duration);
        self.count -= 1;
        self.resumptions += 1;
    }

    /// How often it was measured: calls, and how often they went on.
    #[inline]
    pub(super) fn measured(&self) -> u64 {
        self.count + self.resumptions
    }

    /// Calls and what they went on, together, if any went on; else 0.
    pub(super) fn polls(&self) -> u64 {
        if self.resumptions == 0 { 0 } else { self.measured() }
    }

    /// `duration` is either the first call or one of the rest.
    #[inline]
    fn add_first(&mut self, started: u64, duration: u64, has_others: bool) {
        let mut other = duration;
        if started < self.first_started {
            other = std::mem::replace(&mut self.first, duration);
            self.first_started = started;
        }
        if has_others {
            self.shortest = self.shortest.min(other);
            self.longest = self.longest.max(other);
            self.rest += other as f64;
            self.rest_squares += other as f64 * other as f64;
        }
    }

    /// The standard deviation of all but the first; `None` of less than two.
    pub(super) fn deviation(&self) -> Option<f64> {
        let count = self.measured().saturating_sub(1) as f64;
        let variance = (self.rest_squares - self.rest * self.rest / count) / (count - 1.0);
        // Rounding may make nothing less than nothing.
        (count >= 2.0).then(|| variance.max(0.0).sqrt())
    }

    /// Counts the calls of `other` too; their total only if they are not inside calls that are
    /// counted already.
    pub(super) fn merge(&mut self, other: &Self, is_inside: bool) {
        if other.measured() > 0 {
            self.add_first(other.first_started, other.first, self.measured() > 0);
            self.shortest = self.shortest.min(other.shortest);
            self.longest = self.longest.max(other.longest);
            self.rest += other.rest;
            self.rest_squares += other.rest_squares;
        }
        self.count += other.count;
        self.resumptions += other.resumptions;
        self.own += other.own;
        if !is_inside {
            self.total += other.total;
        }
    }
}

/// All paths.
#[derive(Debug, Default)]
pub(super) struct PathTree {
    pub(super) nodes: Vec<Node>,
    pub(super) modules: ModuleTable,
    ids: FxHashMap<PathKey, NodeId>,
}

impl PathTree {
    /// The node of a path.
    #[inline]
    pub(super) fn node(&mut self, key: PathKey) -> NodeId {
        match self.ids.get(&key) {
            Some(id) => *id,
            None => self.add(key),
        }
    }

    #[cold]
    fn add(&mut self, mut key: PathKey) -> NodeId {
        if let Some(resumed) = key.action.resumed() {
            // What goes on of a call is where the call is.
            let id = self.node(PathKey { action: resumed, ..key });
            if !self.is_full() {
                self.ids.insert(key, id);
            }
            return id;
        }
        if self.is_full() {
            key = PathKey { direction: key.direction, ..PathKey::plain(NOWHERE, key.action) };
            if let Some(id) = self.ids.get(&key) {
                return *id;
            }
        }
        let kind = key.action.kind();
        let parent = self.nodes.get(key.parent as usize);
        let part = match parent.and_then(|parent| parent.part) {
            // What runs while a batch is fetched belongs to that; else the innermost that tells one decides.
            Some(StepPart::Data) => Some(StepPart::Data),
            around => StepPart::told_by(key.action, key.direction).or(around),
        };
        let around = parent.and_then(|parent| parent.modules);
        let modules = match kind {
            ActionKind::Module => Some(self.modules.call(around, key.action)),
            _ => key.forward_modules.or(around),
        };
        let id = self.nodes.len() as NodeId; // names are far fewer than 2^32
        self.nodes.push(Node { key, kind, modules, part, calls: Calls::default() });
        self.ids.insert(key, id);
        id
    }

    /// The innermost module that a path ran in, itself included.
    pub(super) fn module_of(&self, node: &Node) -> Option<ModuleId> {
        node.modules.map(|chain| self.modules.innermost(chain))
    }

    /// Whether there was no room for all paths.
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= MOST_PATHS
    }

    /// The node of a way down, the outermost first.
    pub(super) fn descend(&mut self, actions: &[Action]) -> NodeId {
        let mut id = NOWHERE;
        for action in actions {
            id = self.node(PathKey::plain(id, *action));
        }
        id
    }

    /// Adds to every value of `values`, one per node, what its children have.
    pub(super) fn sum_up<T: Copy + std::ops::AddAssign>(&self, values: &mut [T]) {
        for id in (0..self.nodes.len()).rev() {
            let parent = self.nodes[id].key.parent as usize;
            if parent < id {
                let value = values[id];
                values[parent] += value;
            }
        }
    }

    /// A value per node, made from the node and its parent's value.
    pub(super) fn inherit<T: Clone>(&self, make: impl Fn(&Node, Option<&T>) -> T) -> Vec<T> {
        let mut values: Vec<T> = Vec::with_capacity(self.nodes.len());
        for node in &self.nodes {
            let value = make(node, values.get(node.key.parent as usize));
            values.push(value);
        }
        values
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_call_is_apart_from_the_rest_in_whatever_order_they_come() {
        let calls = [(10, 7), (20, 3), (30, 5)];
        let sum = |order: &[usize]| {
            let mut sum = Calls::default();
            for index in order {
                sum.add(calls[*index].0, calls[*index].1);
            }
            (sum.count, sum.total, sum.first, sum.shortest, sum.longest)
        };
        for order in [[0, 1, 2], [2, 1, 0], [1, 0, 2], [1, 2, 0]] {
            assert_eq!(sum(&order), (3, 15, 7, 3, 5), "{order:?}");
        }
        assert_eq!(sum(&[0]), (1, 7, 7, u64::MAX, 0), "no rest");
    }

    #[test]
    fn the_deviation_is_that_of_all_but_the_first() {
        let durations = [900, 4, 8, 6, 2];
        let calls = |range: std::ops::Range<usize>| {
            let mut calls = Calls::default();
            range.for_each(|index| calls.add(index as u64, durations[index]));
            calls
        };
        // Of 4, 8, 6 and 2.
        let expected = (20.0_f64 / 3.0).sqrt();
        let near =
            |calls: Calls| calls.deviation().is_some_and(|found| (found - expected).abs() < 1e-9);
        assert!(near(calls(0..5)));
        let mut merged = calls(3..5);
        merged.merge(&calls(0..3), false);
        assert!(near(merged), "{:?}", merged.deviation());
        assert_eq!((calls(0..1).deviation(), calls(0..2).deviation()), (None, None));
    }

    #[test]
    fn rows_are_merged_as_if_their_calls_had_been_one_row() {
        let (mut late, mut early) = (Calls::default(), Calls::default());
        late.add(50, 9);
        late.add(60, 1);
        early.add(10, 4);
        let mut row = Calls::default();
        row.merge(&late, false);
        row.merge(&early, false);
        row.merge(&Calls::default(), false);
        assert_eq!((row.count, row.total, row.first), (3, 14, 4));
        assert_eq!((row.shortest, row.longest), (1, 9));
        let mut inner = Calls::default();
        inner.add(11, 2);
        row.merge(&inner, true);
        assert_eq!((row.count, row.total), (4, 14), "inside a call that is counted already");
    }

    #[test]
    fn paths_without_end_stop_being_told_apart() {
        let mut tree = PathTree::default();
        let action = Action::op("endless");
        let mut parent = NOWHERE;
        for _ in 0..2 * MOST_PATHS {
            parent = tree.node(PathKey::plain(parent, action));
        }
        assert!(tree.is_full());
        assert!(tree.nodes.len() <= MOST_PATHS + 1, "{}", tree.nodes.len());
    }
}
