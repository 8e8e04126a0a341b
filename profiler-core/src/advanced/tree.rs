//! What one thread records for the Advanced profiler: a call tree, aggregated in place.

use std::ptr;

use super::snapshot::{Counts, TreeSnapshot};
use crate::NeverStarted;
use crate::action::{Action, ActionKind, SourceLocation};
use crate::clock::{Clock, counter};
use crate::recorder::Table;
use crate::recorder::action_map::ActionMap;
use crate::recorder::stack::{Closed, Stack, span};
use crate::sync::{AtomicPtr, Ordering, Tally};

/// More places in one thread's tree than any program needs; what comes after is counted at one
/// place, `(call tree is full)`, so that memory stays bounded.
pub(super) const MAX_EDGES: u64 = 1 << 16;
pub(super) const OVERFLOW: &str = "(call tree is full)";

/// Callees found by one look: enough for most functions, small enough for a cache line.
const CACHED: usize = 8;

/// How many calls of a function are open inside one action.
#[repr(align(64))]
struct Function {
    active: Tally,
}

/// The functions inside one action: whether a call is recursive is asked action by action, since
/// every action has a report of its own.
type Scope = ActionMap<Function>;

/// A place in the tree. The callees of a place are edges. A call of a function that is already on
/// the way down inside the same action leads back up to where it first stands, and so does one of
/// an action that is anywhere on the way down: recursion makes no new places.
#[repr(align(64))]
struct Node {
    action: Option<Action>,
    parent: *const Node,
    /// Made for the root and for actions.
    own_scope: Option<Box<Scope>>,
    /// The own one, or that of the action that the place is inside of.
    scope: *const Scope,
    /// Calls made from here, the latest first; linked by [`Edge::next`].
    edges: AtomicPtr<Edge>,
    /// Some of `edges`, by the low bits of the action's index.
    cache: [AtomicPtr<Edge>; CACHED],
}

/// The calls of one function from one place: what is counted. Times in ticks.
///
/// *Invariant*: written by the owning thread only; `calls` is published last. Edges and nodes are
/// linked in with `Release` after they are complete, never change their identity, and are freed
/// only with the tree, so that pointers between them stay good.
// Lines of its own, like functions and nodes: nothing that another thread writes lies beside it.
#[repr(align(64))]
pub(crate) struct Edge {
    action: Action,
    from: *const Node,
    to: *const Node,
    /// `to` is a place further up: the call is recursive.
    leads_back: bool,
    next: *const Edge,
    function: *const Function,
    calls: Tally,
    /// Calls with no other call of the function open on the thread.
    primitive: Tally,
    /// Of the primitive calls.
    cumulative: Tally,
    own: Tally,
}

/// *Invariant*: see [`Edge`]. `current` is written and read by the owning thread only.
pub(crate) struct CallTree {
    root: *mut Node,
    current: AtomicPtr<Node>,
    stack: Stack<Edge>,
    edges: Tally,
    overflowed: Tally,
}

// SAFETY: nodes and edges are owned by the tree and freed with it; what is written after they are
// linked in is atomic.
unsafe impl Send for CallTree {}
// SAFETY: as above; that only one thread starts and stops is the duty of the caller (see `Table`).
unsafe impl Sync for CallTree {}

impl Node {
    fn boxed(action: Option<Action>, parent: Option<&Node>) -> *mut Self {
        let own_scope = match parent {
            Some(_) if !action.is_some_and(is_action) => None,
            _ => Some(Box::new(Scope::new())),
        };
        let inherited = parent.map_or(ptr::null(), |parent| parent.scope);
        Box::into_raw(Box::new(Self {
            action,
            parent: parent.map_or(ptr::null(), ptr::from_ref),
            scope: own_scope.as_deref().map_or(inherited, ptr::from_ref),
            own_scope,
            edges: AtomicPtr::new(ptr::null_mut()),
            cache: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }))
    }

    /// Where a call of `action` from here leads back to, if it is recursive.
    fn on_the_way_down_to(&self, action: Action) -> Option<&Self> {
        let goes_past_actions = is_action(action);
        let mut node = self;
        while node.action != Some(action) {
            if node.own_scope.is_some() && !goes_past_actions {
                return None;
            }
            // SAFETY: parents are nodes of this tree, null above the root.
            node = unsafe { node.parent.as_ref() }?;
        }
        Some(node)
    }

    /// The calls made from here. Any thread may call this.
    fn edges(&self) -> impl Iterator<Item = &Edge> {
        let first = self.edges.load(Ordering::Acquire).cast_const();
        // SAFETY: edges are complete before they are linked in and live as long as the tree.
        let edge = |pointer: *const Edge| unsafe { pointer.as_ref() };
        std::iter::successors(edge(first), move |last| edge(last.next))
    }
}

impl CallTree {
    /// The edge from the current place to `action`, if it is the one used last of its cache slot.
    #[inline(always)]
    fn cached_edge(&self, action: Action) -> Option<&Edge> {
        // SAFETY: `current` is a node of this tree, which lives as long as the tree.
        let node = unsafe { &*self.current.load(Ordering::Relaxed) };
        let cached = node.cache[action.index() % CACHED].load(Ordering::Relaxed);
        // SAFETY: cached edges are edges of this tree, or null.
        unsafe { cached.as_ref() }.filter(|edge| edge.action == action)
    }

    /// The edge from the current place to `action`, made if there is none.
    fn edge_to(&self, action: Action) -> &Edge {
        // SAFETY: as in `cached_edge`.
        let node = unsafe { &*self.current.load(Ordering::Relaxed) };
        let known = node.edges().find(|edge| edge.action == action);
        let edge = known.unwrap_or_else(|| self.add_edge(node, action));
        if edge.action == action {
            let pointer = ptr::from_ref(edge).cast_mut();
            node.cache[action.index() % CACHED].store(pointer, Ordering::Relaxed);
        }
        edge
    }

    fn add_edge<'tree>(&'tree self, node: &'tree Node, mut action: Action) -> &'tree Edge {
        if self.edges.get() >= MAX_EDGES {
            self.overflowed.add(1);
            let nowhere = SourceLocation { file: "~", line: 0 };
            action = Action::with_location(ActionKind::Function, OVERFLOW, nowhere);
            if let Some(known) = node.edges().find(|edge| edge.action == action) {
                return known;
            }
            // One more edge per node at the most, and no more nodes: everything below leads back
            // to the overflow's own node.
        }
        // What goes on is as deep in the recursion as a call.
        let called = action.resumed().unwrap_or(action);
        let ancestor = node.on_the_way_down_to(called);
        let to = match ancestor {
            Some(ancestor) => ptr::from_ref(ancestor),
            None => Node::boxed(Some(called), Some(node)).cast_const(),
        };
        // SAFETY: `to` is a node of this tree, and a scope lives as long as the node that owns it.
        let scope = unsafe { &*(*to).scope };
        let edge = Box::into_raw(Box::new(Edge {
            action,
            from: node,
            to,
            leads_back: ancestor.is_some(),
            next: node.edges.load(Ordering::Relaxed),
            function: scope.get_or_insert(called, || Function { active: Tally::new(0) }),
            calls: Tally::new(0),
            primitive: Tally::new(0),
            cumulative: Tally::new(0),
            own: Tally::new(0),
        }));
        self.edges.add(1);
        node.edges.store(edge, Ordering::Release);
        // SAFETY: just made; lives as long as the tree.
        unsafe { &*edge }
    }

    /// Goes down `edge`.
    #[inline(always)]
    fn enter(&self, edge: &Edge) {
        // SAFETY: functions live as long as the tree.
        unsafe { &*edge.function }.active.add(1);
        self.current.store(edge.to.cast_mut(), Ordering::Relaxed);
    }

    /// Comes back up `edge`; true if no other call of the function is open in the action.
    #[inline(always)]
    fn leave(&self, edge: &Edge) -> bool {
        self.current.store(edge.from.cast_mut(), Ordering::Relaxed);
        // SAFETY: as in `enter`.
        unsafe { &*edge.function }.leave()
    }
}

/// Whether this is an action with a report of its own, not a function or span below one.
fn is_action(action: Action) -> bool {
    action.kind().is_action()
}

impl Function {
    /// One call ends; true if no other one is open.
    #[inline(always)]
    fn leave(&self) -> bool {
        let others = self.active.get().wrapping_sub(1);
        self.active.set(others);
        others == 0
    }
}

impl Edge {
    #[inline(always)]
    fn record(&self, closed: &Closed<Self>, is_primitive: bool) {
        self.own.add(closed.elapsed.wrapping_sub(closed.children));
        if is_primitive {
            self.primitive.add(1);
            self.cumulative.add(closed.elapsed);
        }
        self.calls.publish(self.calls.get() + 1);
    }
}

impl Table for CallTree {
    type Snapshot = TreeSnapshot;
    type Record = Edge;

    fn new() -> Self {
        let root = Node::boxed(None, None);
        Self {
            root,
            current: AtomicPtr::new(root),
            stack: Stack::new(),
            edges: Tally::new(0),
            overflowed: Tally::new(0),
        }
    }

    #[inline(always)]
    fn start(&self, action: Action, clock: &Clock) {
        match (self.cached_edge(action), self.stack.room()) {
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
        let edge = self.edge_to(action);
        self.enter(edge);
        self.stack.push_any(action, edge, false, || clock.ticks());
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
        // A scope that is overtaken no longer surrounds the calls that follow.
        let on_detach = |edge: *const Edge| {
            // SAFETY: as in `stop` and `enter`.
            unsafe { (*(*edge).function).leave() };
        };
        let Some(closed) = self.stack.pop_any(action, clock.ticks(), on_detach) else {
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
        let mut snapshot =
            TreeSnapshot { overflowed: self.overflowed.get(), ..TreeSnapshot::default() };
        // The places still to be copied: a node and the index of its copy.
        let mut open: Vec<(*const Node, usize)> = vec![(self.root, 0)];
        while let Some((node, place)) = open.pop() {
            // SAFETY: reached from the root, so a node of this tree.
            let node = unsafe { &*node };
            for edge in node.edges() {
                let calls = edge.calls.get_published();
                let counts = Counts {
                    calls,
                    resumptions: 0,
                    primitive: edge.primitive.get(),
                    cumulative: span(edge.cumulative.get()),
                    own: span(edge.own.get()),
                };
                let (action, counts) = match edge.action.resumed() {
                    Some(resumed) => (resumed, counts.of_resumptions()),
                    None => (edge.action, counts),
                };
                let callee = snapshot.place_or_insert(place, action, edge.leads_back, counts);
                if !edge.leads_back {
                    open.push((edge.to, callee));
                }
            }
        }
        snapshot
    }

    fn merge(into: &mut TreeSnapshot, from: &TreeSnapshot) {
        into.merge(from);
    }
}

impl Drop for CallTree {
    fn drop(&mut self) {
        let mut open = vec![self.root.cast_const()];
        while let Some(node) = open.pop() {
            // SAFETY: every node is reached once, by the one edge that does not lead back, or as
            // the root; it was made by `Box::into_raw`, and nobody else holds the tree any more.
            let node = unsafe { Box::from_raw(node.cast_mut()) };
            let mut edge = node.edges.load(Ordering::Relaxed);
            while !edge.is_null() {
                // SAFETY: every edge is in the list of one node and was made by `Box::into_raw`.
                let last = unsafe { Box::from_raw(edge) };
                if !last.leads_back {
                    open.push(last.to);
                }
                edge = last.next.cast_mut();
            }
        }
    }
}
