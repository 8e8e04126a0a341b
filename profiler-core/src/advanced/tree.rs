//! Call tree of one thread for the Advanced profiler, aggregated in place.

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

/// Maximum number of edges in one thread's tree, more than any program needs. Further calls are
/// counted at one node, `(call tree is full)`, so that memory stays bounded.
pub(super) const MAX_EDGES: usize = 1 << 16;
pub(super) const OVERFLOW: &str = "(call tree is full)";

/// Node of the call tree. Its callees are edges. Recursion creates no new nodes:
///
/// - A recursive call of a function inside the same action leads back to the function's first node.
/// - A call of an action that is anywhere on the path leads back to that action's node.
struct Node {
    action: Option<Action>,
    /// Number of the node in order of creation. The root is 0.
    number: u32,
    /// Number of the node of the enclosing action, or its own number if it is an action.
    scope: u32,
    parent: *const Node,
    /// Number of open calls of the function. All nodes of the function [inside the same
    /// action](FunctionOf) share the counter in the first of them.
    open: Tally,
    callees: ActionIndex<Edge>,
}

/// Scope within which calls count as recursive. For an action this is the whole thread. For a
/// function it is the enclosing action, because every action has its own report.
type FunctionOf = (Option<u32>, Action);

/// Counts of the calls of one function from one node. Times are in ticks.
///
/// *Invariant*: written only by the owning thread. `calls` is published last. Edges and nodes never
/// change their identity and are freed only with the tree, so pointers between them stay valid.
#[repr(C, align(64))]
pub(crate) struct Edge {
    action: Action,
    /// `true` if `to` is an ancestor, so the call is recursive.
    leads_back: bool,
    from: *const Node,
    to: *const Node,
    /// Counter of the function's open calls.
    open: *const Tally,
    calls: Tally,
    /// Number of calls during which no other call of the function was open.
    primitive: Tally,
    /// Ticks of the primitive calls.
    cumulative: Tally,
    own: Tally,
}

/// Call tree of one thread.
///
/// *Invariant*: see [`Edge`]. Only the owning thread reads and writes `current`.
///
/// *Memory*: 64 bytes per edge and 56 per node, 16 to 64 for the edge's slots in the index of its
/// node, and about 30 for its function. Recursive calls have no node.
pub(crate) struct CallTree {
    current: AtomicPtr<Node>,
    stack: Stack<Edge>,
    nodes: Arena<Node>,
    /// Edges in order of creation. The edge that leads to a node precedes the edges from it.
    edges: Arena<Edge>,
    /// Open-call counters by function. The owning thread uses them when it adds an edge.
    functions: Mutex<FxHashMap<FunctionOf, *const Tally>>,
    overflowed: Tally,
    /// Start time in ticks of the first call that represents a [part of a step](part_told_by), or 0
    /// before it.
    first_part: Tally,
}

// SAFETY: the tree owns its nodes and edges, and they are freed with it. After they are added, only
// their atomic fields change.
unsafe impl Send for CallTree {}
// SAFETY: other threads only read edges and nodes, and only atomic fields change. Callers must
// guarantee that only one thread starts and stops actions (see `Table`).
unsafe impl Sync for CallTree {}
// SAFETY: the pointers refer to nodes of the same tree, which outlive the node's use.
unsafe impl Send for Node {}
// SAFETY: shared access reads immutable or atomic fields. Only the owning thread uses `callees`.
unsafe impl Sync for Node {}
// SAFETY: the pointers refer to nodes of the same tree, which live as long as the edge.
unsafe impl Send for Edge {}
// SAFETY: shared access reads immutable or atomic fields.
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

    /// Returns the ancestor to which a call of `action` from here leads back, if it is recursive.
    fn on_the_way_down_to(&self, action: Action) -> Option<&Self> {
        let goes_past_actions = is_action(action);
        let mut node = self;
        while node.action != Some(action) {
            #[cfg(test)]
            looks::add(1);
            if node.number == node.scope && !goes_past_actions {
                return None;
            }
            // SAFETY: `parent` is null in the root and otherwise points to a node of this tree.
            node = unsafe { node.parent.as_ref() }?;
        }
        Some(node)
    }
}

impl CallTree {
    fn current(&self) -> &Node {
        // SAFETY: `current` points to a node of this tree, which lives as long as the tree.
        unsafe { &*self.current.load(Ordering::Relaxed) }
    }

    /// Returns the edge from the current node to `action`, and creates it if necessary.
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
            // Each node gets at most one more edge, and further nodes are not created. All calls
            // below lead back to the overflow's own node.
        }
        // A resumption has the same recursion depth as the call that it continues.
        let called = action.resumed().unwrap_or(action);
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let function = node.function_of(called);
        let open = functions.get(&function).copied();
        // A function without open calls is not on the path. This check avoids the walk up, which
        // would make deep trees slow to grow.
        //
        // SAFETY: the counters of functions are in nodes, which live as long as the tree.
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
        // SAFETY: edges live as long as the tree, which also owns the nodes with their indexes.
        unsafe { node.callees.insert(edge) };
        edge
    }

    /// Makes the callee of `edge` the current node.
    #[inline(always)]
    fn enter(&self, edge: &Edge) {
        // SAFETY: the counter is in a node, which lives as long as the tree.
        unsafe { &*edge.open }.add(1);
        self.current.store(edge.to.cast_mut(), Ordering::Relaxed);
    }

    /// Makes the caller of `edge` the current node. Returns `true` if no other call of the function
    /// is open.
    #[inline(always)]
    fn leave(&self, edge: &Edge) -> bool {
        self.current.store(edge.from.cast_mut(), Ordering::Relaxed);
        edge.end_call()
    }
}

/// Returns `true` for an action with its own report, and `false` for a function or span below one.
fn is_action(action: Action) -> bool {
    action.kind().is_action()
}

impl Edge {
    /// Ends one call of the function. Returns `true` if no other call of it is open.
    #[inline(always)]
    fn end_call(&self) -> bool {
        // SAFETY: the counter is in a node, which lives as long as the tree.
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
        // Recursion is determined per action here, so the stack need not record it.
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
        // A detached scope no longer encloses the following calls.
        let on_detach = |scope: &Overtaken<Edge>| {
            // SAFETY: the record is an edge of this tree, which lives as long as the tree.
            unsafe { &*scope.record }.end_call();
        };
        let Some(closed) = self.stack.pop_any(action, clock.now(), on_detach) else {
            return false;
        };
        // SAFETY: the record is an edge of this tree, which lives as long as the tree.
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
        // Snapshot index of every node. Each node except the root was created with the one edge
        // that leads to it without leading back. Nodes are therefore numbered in the order of these
        // edges. A call and its resumption have separate nodes but share one place in the snapshot.
        let mut places = vec![0];
        for edge in self.edges.iter() {
            // SAFETY: `from` points to a node of this tree, which lives as long as the tree.
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
        // SAFETY: the pointer is null above the root, or refers to a node of this tree, which lives
        // as long as the tree.
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
