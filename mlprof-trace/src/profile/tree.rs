//! The calling-context tree: every distinct path from the top of a thread to an op, with the sums
//! of all calls on that path.

use rustc_hash::FxHashMap;

use super::modules::{ChainId, ModuleId, ModuleTable};
use mlprof_events::{Action, ActionKind, Direction, ShapeList};
use mlprof_report::internals::StepPart;

/// Number of a [`Node`]. A parent's number is always lower than those of its children.
pub(super) type NodeId = u32;

/// Parent of the topmost nodes.
pub(super) const NOWHERE: NodeId = NodeId::MAX;

/// Maximum number of different paths. Further ones are distinguished by name only, so that shapes
/// that never recur cannot fill the memory.
const MOST_PATHS: usize = 1 << 18;

/// Key that distinguishes paths with the same parent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct PathKey {
    pub(super) parent: NodeId,
    pub(super) action: Action,
    pub(super) shapes: ShapeList,
    pub(super) direction: Direction,
    /// Modules in which a backward op's forward op ran, if known.
    pub(super) forward_modules: Option<ChainId>,
}

impl PathKey {
    /// Returns a forward path without shapes.
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
    /// Modules in which the path ran, including its own.
    pub(super) modules: Option<ChainId>,
    /// Part of a step to which the path belongs; `None` for the rest.
    pub(super) part: Option<StepPart>,
    pub(super) calls: Calls,
}

/// Sums over the calls of one path or row. All times are in ticks.
#[derive(Debug, Clone, Copy)]
pub(super) struct Calls {
    pub(super) count: u64,
    /// Number of resumptions: polls of an async function after the first.
    pub(super) resumptions: u64,
    pub(super) total: u64,
    /// Self time: without scopes inside it on the same thread. It is negative only while a track is
    /// being processed.
    pub(super) own: i64,
    /// Start of the first call, or [`u64::MAX`] if there is none. `first` is its duration.
    pub(super) first_started: u64,
    pub(super) first: u64,
    /// Shortest duration except the first. `longest` is the longest one.
    pub(super) shortest: u64,
    pub(super) longest: u64,
    /// Sum of the durations except the first. `rest_squares` is the sum of their squares.
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
    /// Adds a call. Its self time is added separately.
    #[inline]
    pub(super) fn add(&mut self, started: u64, duration: u64) {
        self.add_first(started, duration, self.measured() > 0);
        self.count += 1;
        self.total += duration;
    }

    /// Adds a resumption. Its duration counts for the first, the shortest and the longest duration.
    #[cold]
    pub(super) fn add_resumption(&mut self, started: u64, duration: u64) {
        self.add(started, duration);
        self.count -= 1;
        self.resumptions += 1;
    }

    /// Returns the number of measurements: calls and resumptions.
    #[inline]
    pub(super) fn measured(&self) -> u64 {
        self.count + self.resumptions
    }

    /// Returns the number of calls and resumptions, or 0 if there are no resumptions.
    pub(super) fn polls(&self) -> u64 {
        if self.resumptions == 0 { 0 } else { self.measured() }
    }

    /// Adds a duration, as the first one if it is the earliest, otherwise to the rest.
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

    /// Returns the standard deviation of all durations except the first, or `None` if there are
    /// fewer than two.
    pub(super) fn deviation(&self) -> Option<f64> {
        let count = self.measured().saturating_sub(1) as f64;
        let variance = (self.rest_squares - self.rest * self.rest / count) / (count - 1.0);
        // Rounding may produce a slightly negative variance.
        (count >= 2.0).then(|| variance.max(0.0).sqrt())
    }

    /// Adds the calls of `other`. Their total time is added only if they are not inside calls that
    /// are already counted.
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
    /// Returns the node of a path.
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
            // A resumption belongs to the path of its call.
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
            // Everything that runs while a batch is fetched belongs to the data part. Otherwise the
            // innermost action with a known part decides.
            Some(StepPart::Data) => Some(StepPart::Data),
            around => StepPart::of_action(key.action, key.direction).or(around),
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

    /// Returns the innermost module in which a path ran, which may be the path itself.
    pub(super) fn module_of(&self, node: &Node) -> Option<ModuleId> {
        node.modules.map(|chain| self.modules.innermost(chain))
    }

    /// Returns `true` if the maximum number of paths is reached.
    pub(super) fn is_full(&self) -> bool {
        self.nodes.len() >= MOST_PATHS
    }

    /// Returns the node at the end of a sequence of actions, outermost first.
    pub(super) fn descend(&mut self, actions: &[Action]) -> NodeId {
        let mut id = NOWHERE;
        for action in actions {
            id = self.node(PathKey::plain(id, *action));
        }
        id
    }

    /// Adds the values of all descendants to every value of `values`, which has one element per
    /// node.
    pub(super) fn sum_up<T: Copy + std::ops::AddAssign>(&self, values: &mut [T]) {
        for id in (0..self.nodes.len()).rev() {
            let parent = self.nodes[id].key.parent as usize;
            if parent < id {
                let value = values[id];
                values[parent] += value;
            }
        }
    }

    /// Computes a value for each node from the node and its parent's value.
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
        // The durations are 4, 8, 6 and 2.
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
