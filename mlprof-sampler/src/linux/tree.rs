//! Samples as a call tree of actions and code addresses.

use rustc_hash::FxHashMap;

use super::handler::{CUT, HEAD, NO_STACK, WAITS};
use mlprof_events::Action;

pub(super) type NodeId = u32;

/// Sums of the samples that ended at one node, in ticks.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Weights {
    pub(super) working: u64,
    pub(super) waiting: u64,
    /// Ticks that expired while the thread could not be interrupted.
    pub(super) stalled: u64,
    /// Number of samples of work. `squares` is the sum of their squared weights, for the standard
    /// error.
    pub(super) samples: u64,
    pub(super) squares: u64,
}

impl Weights {
    pub(super) fn add(&mut self, other: &Self) {
        self.working += other.working;
        self.waiting += other.waiting;
        self.stalled += other.stalled;
        self.samples += other.samples;
        self.squares += other.squares;
    }
}

/// Content of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Key {
    /// Session of the active recorder, and the session to which the sample's actions belong.
    Session {
        running: u64,
        own: u64,
    },
    Scope(Action),
    /// Unknown callers: there were too many, or unwinding failed.
    Cut,
    /// An address in the executing function or in one of its callers.
    Code(u64),
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) parent: Option<NodeId>,
    pub(super) key: Key,
    pub(super) weights: Weights,
}

/// Maximum number of nodes. If it is reached, samples are counted at the parent node.
const MOST_NODES: usize = 1 << 18;

#[derive(Debug, Clone, Default)]
pub(super) struct Tree {
    pub(super) nodes: Vec<Node>,
    ids: FxHashMap<(Option<NodeId>, Key), NodeId>,
    /// Number of samples that were counted at a parent node for lack of space.
    pub(super) crowded: u64,
    /// Number of samples that contain only the current function.
    pub(super) without_stack: u64,
}

/// Values of an added record that the collector needs.
pub(super) struct Added {
    pub(super) node: NodeId,
    pub(super) working: u64,
    pub(super) waiting: u64,
    pub(super) stalled: u64,
    /// Duration of the handler, in ticks of the processor's counter.
    pub(super) cost: u64,
}

impl Tree {
    fn node(&mut self, parent: Option<NodeId>, key: Key) -> Option<NodeId> {
        if let Some(id) = self.ids.get(&(parent, key)) {
            return Some(*id);
        }
        // Sessions and actions are few, so the limit does not apply to them.
        if self.nodes.len() >= MOST_NODES && matches!(key, Key::Code(_)) {
            return None;
        }
        let id = self.nodes.len() as NodeId;
        self.nodes.push(Node { parent, key, weights: Weights::default() });
        self.ids.insert((parent, key), id);
        Some(id)
    }

    /// Adds a sample in the format of the handler. Returns `None` if the record is malformed.
    pub(super) fn add(&mut self, record: &[u64], running: u64) -> Option<Added> {
        let [lengths, ticks_and_cost, late, own] = *record.first_chunk::<HEAD>()?;
        let scopes = (lengths >> 16 & 0xffff_ffff) as usize;
        let (scope_words, code) = record[HEAD..].split_at_checked(scopes.div_ceil(2))?;
        let halves = scope_words.iter().flat_map(|word| [*word as u32, (*word >> 32) as u32]);
        let mut place = self.node(None, Key::Session { running, own })?;
        let mut last = None;
        for action in halves.take(scopes).filter_map(Action::from_number) {
            if action.kind().is_action() && last != Some(action) {
                place = self.node(Some(place), Key::Scope(action))?;
                last = Some(action);
            }
        }
        if lengths & (CUT | NO_STACK) != 0 {
            place = self.node(Some(place), Key::Cut)?;
            self.without_stack += u64::from(lengths & NO_STACK != 0);
        }
        for address in code.iter().rev() {
            match self.node(Some(place), Key::Code(*address)) {
                Some(node) => place = node,
                None => {
                    self.crowded += 1;
                    break;
                }
            }
        }
        let (ticks, cost) = (ticks_and_cost & 0xffff_ffff, ticks_and_cost >> 32);
        let waits = lengths & WAITS != 0;
        // All ticks of a waiting thread count as waiting, even if they were late.
        let (working, waiting, stalled) =
            if waits { (0, ticks + late, 0) } else { (ticks, 0, late) };
        let samples = u64::from(working > 0);
        let added = Weights { working, waiting, stalled, samples, squares: working * working };
        self.nodes[place as usize].weights.add(&added);
        Some(Added { node: place, working, waiting, stalled, cost })
    }

    /// Adds ticks of waiting to a node.
    pub(super) fn add_waiting(&mut self, node: NodeId, ticks: u64) {
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.weights.waiting += ticks;
        }
    }

    /// Returns the nodes from `id` up to the root, including `id` itself.
    pub(super) fn way_up(&self, id: NodeId) -> impl Iterator<Item = &Node> {
        let node = |id: NodeId| self.nodes.get(id as usize);
        std::iter::successors(node(id), move |below| node(below.parent?))
    }

    /// Removes all samples that belong to no session in `alive`. Ids of nodes change.
    pub(super) fn retain_sessions(&mut self, alive: &[u64]) {
        let is_kept = |node: &Node| match node.key {
            Key::Session { running, own } => alive.contains(&running) || alive.contains(&own),
            _ => true,
        };
        if self.nodes.iter().all(is_kept) {
            return;
        }
        let old = std::mem::take(&mut self.nodes);
        self.ids.clear();
        // Parents precede their children.
        let mut new_ids: Vec<Option<NodeId>> = Vec::with_capacity(old.len());
        for node in old {
            let parent = node.parent.map(|parent| new_ids[parent as usize]);
            let id = match parent {
                Some(None) => None,
                _ if !is_kept(&node) => None,
                parent => self.node(parent.flatten(), node.key),
            };
            if let Some(id) = id {
                self.nodes[id as usize].weights = node.weights;
            }
            new_ids.push(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(flags: u64, ticks: u64, own: u64, scopes: &[Action], code: &[u64]) -> Vec<u64> {
        let mut record = vec![0, ticks | 5 << 32, 2, own];
        for pair in scopes.chunks(2) {
            let number = |at: usize| pair.get(at).map_or(0, |action| u64::from(action.number()));
            record.push(number(0) | number(1) << 32);
        }
        record.extend(code);
        record[0] = record.len() as u64 | (scopes.len() as u64) << 16 | flags;
        record
    }

    fn path(tree: &Tree, id: NodeId) -> Vec<Key> {
        tree.way_up(id).map(|node| node.key).collect()
    }

    #[test]
    fn samples_land_below_their_actions_innermost_frame_last() {
        let (outer, inner) = (Action::new("tree-outer"), Action::new("tree-inner"));
        let op = Action::op("tree-op");
        let mut tree = Tree::default();
        let scopes = [outer, outer, op, inner];
        let added = tree.add(&record(0, 1, 7, &scopes, &[30, 20, 10]), 9).expect("whole");
        assert_eq!((added.working, added.waiting, added.stalled, added.cost), (1, 0, 2, 5));
        assert_eq!(
            path(&tree, added.node),
            [
                Key::Code(30),
                Key::Code(20),
                Key::Code(10),
                Key::Scope(inner),
                Key::Scope(outer),
                Key::Session { running: 9, own: 7 },
            ]
        );
        let again = tree.add(&record(0, 3, 7, &scopes, &[30, 20, 10]), 9).expect("whole");
        assert_eq!(again.node, added.node);
        let weights = tree.nodes[again.node as usize].weights;
        assert_eq!(
            weights,
            Weights { working: 4, waiting: 0, stalled: 4, samples: 2, squares: 10 }
        );
        let waits = tree.add(&record(WAITS | CUT, 2, 0, &[], &[30]), 9).expect("whole");
        tree.add_waiting(waits.node, 5);
        assert_eq!(tree.nodes[waits.node as usize].weights.waiting, 9, "two of them were late");
        assert_eq!(path(&tree, waits.node)[1], Key::Cut);
        assert!(tree.add(&[3, 1], 9).is_none(), "too short");
        assert!(tree.add(&record(0, 1, 7, &scopes, &[])[..4], 9).is_none(), "cut off");
    }

    #[test]
    fn sessions_that_are_over_are_forgotten() {
        let mut tree = Tree::default();
        for (running, own) in [(1, 0), (1, 1), (2, 1), (2, 0), (3, 99)] {
            tree.add(&record(0, 1, own, &[], &[10]), running).expect("whole");
        }
        tree.retain_sessions(&[1]);
        let sessions: Vec<Key> =
            tree.nodes.iter().filter(|node| node.parent.is_none()).map(|node| node.key).collect();
        let session = |running, own| Key::Session { running, own };
        assert_eq!(sessions, [session(1, 0), session(1, 1), session(2, 1)]);
        assert_eq!(tree.nodes.len(), 6);
        assert_eq!(tree.nodes.iter().map(|node| node.weights.working).sum::<u64>(), 3);
    }

    #[test]
    fn memory_has_a_limit() {
        let mut tree = Tree::default();
        for address in 0..MOST_NODES as u64 + 10 {
            tree.add(&record(0, 1, 0, &[], &[address]), 1).expect("whole");
        }
        assert_eq!(tree.nodes.len(), MOST_NODES);
        assert_eq!(tree.crowded, 11, "one node is the session's");
        assert_eq!(tree.nodes[0].weights.working, 11);
    }
}
