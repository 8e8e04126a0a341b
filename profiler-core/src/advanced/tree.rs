//! What one thread records for the Advanced profiler: a call tree, aggregated in place.

use std::ptr;
use std::sync::PoisonError;

use rustc_hash::FxHashMap;

use super::snapshot::{Counts, TreeSnapshot};
use crate::NeverStarted;
use crate::recorder::arena::Arena;
use crate::recorder::index::{ActionIndex, Named};
#[cfg(test)]
use crate::recorder::stack::looks;
use crate::recorder::stack::{Closed, Overtaken, Stack, span};
use crate::recorder::steps::{ActionTicks, TellsTotals, part_told_by};
use crate::recorder::{Kind, Table};
use mlprof_events::clock::{Clock, counter};
use mlprof_events::sync::{AtomicPtr, Mutex, Ordering, Tally};
use mlprof_events::{Action, Callsite};

/// More places in one thread's tree than any program needs; what comes after is counted at one
/// place, `(call tree is full)`, so that memory stays bounded.
pub(super) const MAX_EDGES: usize = 1 << 16;
pub(super) const OVERFLOW: &str = "(call tree is full)";

/// A place in the tree. The callees of a place are edges. A call of a function that is already on
/// the way down inside the same action leads back up to where it first stands, and so does one of
/// an action that is anywhere on the way down: recursion makes no new places.
struct Node {
    action: Option<Action>,
    /// Nodes are counted in the order in which they are made; the root is 0.
    number: u32,
    /// The number of the action that the place is inside of, or its own if it is one.
    scope: u32,
    parent: *const Node,
    /// How many calls of the function are open: for all nodes of the function [inside of the same
    /// action](FunctionOf), this is in the first of them.
    open: Tally,
    callees: ActionIndex<Edge>,
}

/// What calls of an action or a function are recursive among: an action's all over the thread, a
/// function's inside one action, since every action has a report of its own.
type FunctionOf = (Option<u32>, Action);

/// The calls of one function from one place: what is counted. Times in ticks.
///
/// *Invariant*: written by the owning thread only; `calls` is published last. Edges and nodes never
/// change their identity and are freed only with the tree, so that pointers between them stay good.
#[repr(C, align(64))]
pub(crate) struct Edge {
    action: Action,
    /// `to` is a place further up: the call is recursive.
    leads_back: bool,
    from: *const Node,
    to: *const Node,
    /// How many calls of the function are open.
    open: *const Tally,
    calls: Tally,
    /// Calls with no other call of the function open.
    primitive: Tally,
    /// Of the primitive calls.
    cumulative: Tally,
    own: Tally,
}

/// *Invariant*: see [`Edge`]. `current` is written and read by the owning thread only.
///
/// *Memory*: 64 bytes per edge and 56 per node, 16 to 64 for the edge's slots in the index of its
/// node, and some 30 for its function; recursive calls have no node.
pub(crate) struct CallTree {
    current: AtomicPtr<Node>,
    stack: Stack<Edge>,
    nodes: Arena<Node>,
    /// In the order in which they were made: what leads to a place stands before what leads on.
    edges: Arena<Edge>,
    /// For the owning thread, when a new edge is made.
    functions: Mutex<FxHashMap<FunctionOf, *const Tally>>,
    overflowed: Tally,
    /// When the first call began that tells a [part of a step](part_told_by); 0 before.
    first_part: Tally,
}

// SAFETY: nodes and edges are owned by the tree and freed with it; what is written after they are
// added is atomic.
unsafe impl Send for CallTree {}
// SAFETY: as above; that only one thread starts and stops is the duty of the caller (see `Table`).
unsafe impl Sync for CallTree {}
// SAFETY: the pointers lead to nodes of the same tree; see `CallTree`.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}
// SAFETY: as for nodes.
unsafe impl Send for Edge {}
// SAFETY: as above.
unsafe impl Sync for Edge {}

impl Named for Edge {
    #[inline(always)]
    fn number(&self) -> u32 {
        self.action.number()
    }
}

impl Node {
    fn root() -> Self {
        Self {
            action: None,
            number: 0,
            scope: 0,
            parent: ptr::null(),
            open: Tally::new(0),
            callees: ActionIndex::new(),
        }
    }

    fn below(parent: &Self, action: Action, number: u32) -> Self {
        let scope = if is_action(action) { number } else { parent.scope };
        Self { action: Some(action), number, scope, parent, ..Self::root() }
    }

    fn function_of(&self, action: Action) -> FunctionOf {
        ((!is_action(action)).then_some(self.scope), action)
    }

    /// Where a call of `action` from here leads back to, if it is recursive.
    fn on_the_way_down_to(&self, action: Action) -> Option<&Self> {
        let goes_past_actions = is_action(action);
        let mut node = self;
        while node.action != Some(action) {
            #[cfg(test)]
            looks::add(1);
            if node.number == node.scope && !goes_past_actions {
                return None;
            }
            // SAFETY: parents are nodes of this tree, null above the root.
            node = unsafe { node.parent.as_ref() }?;
        }
        Some(node)
    }
}

impl CallTree {
    fn current(&self) -> &Node {
        // SAFETY: `current` is a node of this tree, which lives as long as the tree.
        unsafe { &*self.current.load(Ordering::Relaxed) }
    }

    /// The edge from the current place to `action`, made if there is none.
    fn edge_to(&self, action: Action) -> &Edge {
        let node = self.current();
        node.callees.get(action).unwrap_or_else(|| self.add_edge(node, action))
    }

    fn add_edge<'tree>(&'tree self, node: &'tree Node, mut action: Action) -> &'tree Edge {
        if self.edges.len() >= MAX_EDGES {
            static FULL: Callsite = Callsite::function(OVERFLOW, "~", 0);
            self.overflowed.add(1);
            action = FULL.action();
            if let Some(known) = node.callees.get(action) {
                return known;
            }
            // One more edge per node at the most, and no more nodes: everything below leads back
            // to the overflow's own node.
        }
        // What goes on is as deep in the recursion as a call.
        let called = action.resumed().unwrap_or(action);
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let function = node.function_of(called);
        let open = functions.get(&function).copied();
        // What is not open is not on the way down. That spares walking up, which would make deep
        // trees slow to grow.
        // SAFETY: the counts of functions are in nodes, which live as long as the tree.
        let is_open = open.is_some_and(|open| unsafe { &*open }.get() > 0);
        let ancestor = if is_open { node.on_the_way_down_to(called) } else { None };
        let to = ancestor
            .unwrap_or_else(|| self.nodes.add(Node::below(node, called, self.nodes.len() as u32)));
        let edge = self.edges.add(Edge {
            action,
            leads_back: ancestor.is_some(),
            from: node,
            to,
            open: *functions.entry(function).or_insert(&raw const to.open),
            calls: Tally::new(0),
            primitive: Tally::new(0),
            cumulative: Tally::new(0),
            own: Tally::new(0),
        });
        // SAFETY: edges live as long as the tree, whose nodes have the indexes.
        unsafe { node.callees.insert(edge) };
        edge
    }

    /// Goes down `edge`.
    #[inline(always)]
    fn enter(&self, edge: &Edge) {
        // SAFETY: the counts of functions live as long as the tree.
        unsafe { &*edge.open }.add(1);
        self.current.store(edge.to.cast_mut(), Ordering::Relaxed);
    }

    /// Comes back up `edge`; true if no other call of the function is open.
    #[inline(always)]
    fn leave(&self, edge: &Edge) -> bool {
        self.current.store(edge.from.cast_mut(), Ordering::Relaxed);
        edge.end_call()
    }
}

/// Whether this is an action with a report of its own, not a function or span below one.
fn is_action(action: Action) -> bool {
    action.kind().is_action()
}

impl Edge {
    /// One call of the function ends; true if no other one is open.
    #[inline(always)]
    fn end_call(&self) -> bool {
        // SAFETY: as in `enter`.
        let open = unsafe { &*self.open };
        let others = open.get().wrapping_sub(1);
        open.set(others);
        others == 0
    }

    #[inline(always)]
    fn record(&self, closed: &Closed<Self>, is_primitive: bool) {
        self.own.add(closed.elapsed.wrapping_sub(closed.children));
        if is_primitive {
            self.primitive.add(1);
            self.cumulative.add(closed.elapsed);
        }
        self.calls.publish(self.calls.get() + 1);
    }

    fn counts(&self) -> Counts {
        let calls = self.calls.get_published();
        Counts {
            calls,
            resumptions: 0,
            primitive: self.primitive.get(),
            cumulative: span(self.cumulative.get()),
            own: span(self.own.get()),
        }
    }
}

impl Table for CallTree {
    type Snapshot = TreeSnapshot;
    type Record = Edge;

    const KIND: Kind = Kind::CallTree;

    fn new() -> Self {
        let nodes = Arena::new();
        let root: *const Node = nodes.add(Node::root());
        Self {
            current: AtomicPtr::new(root.cast_mut()),
            stack: Stack::new(),
            nodes,
            edges: Arena::new(),
            functions: Mutex::default(),
            overflowed: Tally::new(0),
            first_part: Tally::new(0),
        }
    }

    #[inline(always)]
    fn start(&self, action: Action, clock: &Clock) {
        match (self.current().callees.get_near(action), self.stack.room()) {
            (Some(edge), Some(room)) => {
                self.enter(edge);
                room.push(action, edge, counter);
            }
            _ => self.start_slow(action, clock),
        }
    }

    #[cold]
    #[inline(never)]
    fn start_slow(&self, action: Action, clock: &Clock) {
        let Some(room) = self.stack.make_room() else { return };
        let edge = self.edge_to(action);
        self.enter(edge);
        room.push_any(action, edge, false, || clock.now());
        if self.first_part.get() == 0 && part_told_by(action).is_some() {
            self.first_part.set(clock.ticks());
        }
    }

    #[inline(always)]
    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted> {
        // Whether a call is recursive is asked per action here, so the stack need not know.
        let Some(closed) = self.stack.pop(action, counter()) else { return elsewhere() };
        // SAFETY: `start` pushed an edge of this tree, which lives as long as the tree.
        let edge = unsafe { &*closed.record };
        edge.record(&closed, self.leave(edge));
        Ok(())
    }

    #[cold]
    #[inline(never)]
    fn stop_slow(&self, action: Action, clock: &Clock) -> bool {
        if self.stack.close_missed() {
            return true;
        }
        // A scope that is overtaken no longer surrounds the calls that follow.
        let on_detach = |scope: &Overtaken<Edge>| {
            // SAFETY: as in `stop`.
            unsafe { &*scope.record }.end_call();
        };
        let Some(closed) = self.stack.pop_any(action, clock.now(), on_detach) else {
            return false;
        };
        // SAFETY: as in `stop`.
        let edge = unsafe { &*closed.record };
        edge.record(&closed, closed.is_detached || self.leave(edge));
        true
    }

    fn stack(&self) -> &Stack<Edge> {
        &self.stack
    }

    fn snapshot(&self) -> TreeSnapshot {
        let mut snapshot = TreeSnapshot::default();
        snapshot.overflowed = self.overflowed.get();
        // The place of every node: what is called and what goes on have nodes of their own, and one
        // place. Each node but the root is led to by one edge that does not lead back, and was made
        // with it, so they are numbered in the order of these edges.
        let mut places = vec![0];
        for edge in self.edges.iter() {
            // SAFETY: nodes live as long as the tree.
            let parent = places[unsafe { &*edge.from }.number as usize];
            let (action, counts) = match edge.action.resumed() {
                Some(resumed) => (resumed, edge.counts().of_resumptions()),
                None => (edge.action, edge.counts()),
            };
            if edge.leads_back {
                snapshot.add_back(parent, action, counts);
            } else {
                places.push(snapshot.add_child(parent, action, counts));
            }
        }
        snapshot
    }

    fn merge(into: &mut TreeSnapshot, from: &TreeSnapshot) {
        into.merge(from);
    }
}

impl TellsTotals for CallTree {
    fn places(&self) -> usize {
        self.edges.len()
    }

    fn places_from(&self, number: usize) -> impl Iterator<Item = (usize, Action)> {
        self.edges.iter().enumerate().skip(number).map(|(place, edge)| (place, edge.action))
    }

    fn around(&self, place: usize) -> impl Iterator<Item = Action> {
        let from = self.edges.get(place).map(|edge| edge.from);
        // SAFETY: edges and nodes lead to nodes of this tree, which live as long as it; the root to null.
        let node = |node: *const Node| unsafe { node.as_ref() };
        std::iter::successors(from.and_then(node), move |inner| node(inner.parent))
            .filter_map(|node| node.action)
    }

    fn ticks(&self, place: usize) -> Option<ActionTicks> {
        let counts = self.edges.get(place)?.counts();
        (counts.primitive > 0).then(|| ActionTicks {
            total: counts.cumulative,
            children: counts.cumulative.saturating_sub(counts.own),
            first_started: self.first_part.get(),
        })
    }
}
