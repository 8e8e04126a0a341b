//! Construction of the calling-context tree from the events of one thread, which are in the order
//! of their ends.
//!
//! Events are processed backwards, so that an enclosing scope precedes the scopes inside it. A
//! scope stays on the stack as long as the following events lie within it. This takes one pass
//! without sorting, and memory only for the open scopes.

use rustc_hash::FxHashMap;

use super::kinds::Kinds;
use super::modules::ChainId;
use super::steps::StepSplit;
use super::tree::{NOWHERE, NodeId, PathKey, PathTree};
use crate::cycle::{Event, MemoryEvent};
use mlprof_events::{Action, ActionKind, Context, Direction, MemoryDevice};

/// Bytes that one path itself allocated and freed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Bytes {
    pub(super) allocated: u64,
    pub(super) freed: u64,
}

impl std::ops::AddAssign for Bytes {
    fn add_assign(&mut self, other: Self) {
        self.allocated += other.allocated;
        self.freed += other.freed;
    }
}

/// Row for memory that was allocated outside of all ops.
pub(super) const UNCLAIMED_MEMORY: &str = "[memory]";

/// Connections between events of one cycle.
#[derive(Debug, Default)]
pub(super) struct Links {
    /// Path that was open at an op's call site, indexed by [`Context::number`] − 1.
    pub(super) contexts: Vec<NodeId>,
    /// Modules in which a forward op ran, by its sequence number and thread, with the op's start
    /// time.
    pub(super) forward_modules: FxHashMap<(u32, u32), (u64, ChainId)>,
    /// Path that launched device work, by correlation number.
    pub(super) launches: FxHashMap<u32, NodeId>,
}

impl Links {
    pub(super) fn context(&self, context: Context) -> NodeId {
        self.contexts.get(context.number() as usize - 1).copied().unwrap_or(NOWHERE)
    }
}

/// An open scope that may be a parent.
#[derive(Clone, Copy)]
pub(super) struct Open<T> {
    start: u64,
    end: u64,
    depth: u16,
    context: Option<Context>,
    pub(super) what: T,
}

impl<T> Open<T> {
    pub(super) fn new(event: &Event, context: Option<Context>, what: T) -> Self {
        let (start, end) = (event.start.ticks(), event.end.ticks());
        Self { start, end, depth: event.depth, context, what }
    }

    #[inline]
    fn contains(&self, event: &Event) -> bool {
        self.start <= event.start.ticks() && event.end.ticks() <= self.end
    }

    /// Returns `true` if this scope encloses `event`. Equal times are ambiguous, so the number of
    /// scopes that were open decides.
    #[inline]
    fn is_around(&self, event: &Event) -> bool {
        let is_deeper = self.depth < event.depth || event.depth == u16::MAX;
        is_deeper && self.contains(event)
    }
}

/// Returns the innermost open scope around `event`, its parent. Scopes that are over are removed.
#[inline]
pub(super) fn parent<T: Copy>(stack: &mut Vec<Open<T>>, event: &Event) -> Option<Open<T>> {
    if event.overlaps {
        return stack.iter().rfind(|open| open.contains(event)).copied();
    }
    while let Some(open) = stack.last() {
        if open.is_around(event) {
            return Some(*open);
        }
        stack.pop();
    }
    None
}

/// A training step with the sum of its spans, in ticks.
struct StepCall {
    id: NodeId,
    number: u32,
    /// Start of its first span.
    started: u64,
    duration: u64,
}

/// Adds the events of one cycle to the tree.
pub(super) struct Fold<'profile> {
    pub(super) tree: &'profile mut PathTree,
    pub(super) memory: &'profile mut FxHashMap<(NodeId, MemoryDevice), Bytes>,
    pub(super) links: Links,
    pub(super) steps: StepSplit,
    /// Current step. It has several spans if it was interrupted.
    step: Option<StepCall>,
    pub(super) unfinished: u64,
    /// Number of forward ops that the framework numbered in order to find them in the backward
    /// pass.
    pub(super) tracked_ops: u64,
}

impl<'profile> Fold<'profile> {
    /// Creates a fold for a cycle.
    pub(super) fn new(
        tree: &'profile mut PathTree,
        memory: &'profile mut FxHashMap<(NodeId, MemoryDevice), Bytes>,
        links: Links,
    ) -> Self {
        Self {
            tree,
            memory,
            links,
            steps: StepSplit::default(),
            step: None,
            unfinished: 0,
            tracked_ops: 0,
        }
    }

    /// Adds one thread's events and memory changes, both in chronological order. Returns the total
    /// duration in ticks of the thread's outermost scopes below steps.
    pub(super) fn track(
        &mut self,
        events: impl DoubleEndedIterator<Item = Event>,
        memory: impl DoubleEndedIterator<Item = MemoryEvent>,
    ) -> u64 {
        let mut outermost = 0;
        let mut memory = memory.rev().peekable();
        let mut stack: Vec<Open<NodeId>> = Vec::new();
        for event in events.rev() {
            while let Some(change) = memory.next_if(|change| change.time > event.end) {
                self.change_memory(&mut stack, &change);
            }
            let around = parent(&mut stack, &event);
            let context = event.context.or_else(|| around.and_then(|open| open.context));
            let id = self.tree.node(self.path(&event, around));
            self.count(&event, id, around.map(|open| open.what));
            let is_step = |id: NodeId| self.tree.nodes[id as usize].kind == ActionKind::Step;
            if !event.overlaps && !is_step(id) && around.is_none_or(|open| is_step(open.what)) {
                outermost += event.end.ticks().saturating_sub(event.start.ticks());
            }
            if !event.overlaps {
                stack.push(Open::new(&event, context, id));
            }
        }
        for change in memory {
            self.change_memory(&mut stack, &change);
        }
        self.end_step();
        self.steps.end_track(&self.tree.nodes);
        outermost
    }

    /// Returns the path of an event. Its parent is the enclosing scope on its thread, or else the
    /// scope that was open at its call site on another thread.
    #[inline]
    fn path(&self, event: &Event, around: Option<Open<NodeId>>) -> PathKey {
        let parent = match (event.context, around) {
            (Some(context), around) if around.is_none_or(|open| open.context != Some(context)) => {
                self.links.context(context)
            }
            (_, around) => around.map_or(NOWHERE, |open| open.what),
        };
        PathKey {
            parent,
            action: event.action,
            // Only shapes distinguish rows, so details are removed.
            shapes: event.shapes.without_details(),
            direction: event.direction,
            forward_modules: self.forward_modules(event),
        }
    }

    #[inline]
    fn forward_modules(&self, event: &Event) -> Option<ChainId> {
        let is_linked = event.direction == Direction::Backward && event.sequence != 0;
        if !is_linked || self.links.forward_modules.is_empty() {
            return None;
        }
        let key = (event.sequence, event.forward_thread);
        self.links.forward_modules.get(&key).map(|(_, modules)| *modules)
    }

    #[inline]
    fn count(&mut self, event: &Event, id: NodeId, around: Option<NodeId>) {
        let start = event.start.ticks();
        let duration = event.end.ticks().saturating_sub(start);
        let kind = self.tree.nodes[id as usize].kind;
        if kind == ActionKind::Step {
            self.count_step(event, id);
        }
        let node = &mut self.tree.nodes[id as usize];
        // A different action is a resumption, because a node's action is the function itself.
        match node.key.action == event.action {
            _ if kind == ActionKind::Step => {}
            true => node.calls.add(start, duration),
            false => node.calls.add_resumption(start, duration),
        }
        // A scope that crosses others has no self time. Otherwise some time would be counted twice.
        if !event.overlaps {
            node.calls.own += duration.cast_signed();
            if let Some(around) = around {
                self.tree.nodes[around as usize].calls.own -= duration.cast_signed();
            }
        }
        if kind == ActionKind::Op && event.direction == Direction::Forward && event.sequence != 0 {
            self.tracked_ops += 1;
        }
        match kind {
            ActionKind::Step => self.steps.begin(event, &self.tree.nodes),
            _ if !event.overlaps => self.steps.add(event, id, around),
            _ => {}
        }
        if kind == ActionKind::Launch && event.sequence != 0 {
            self.links.launches.insert(event.sequence, id);
        }
        // An unfinished step is not counted, because its last span normally ends without a call of
        // `step()`.
        self.unfinished += u64::from(event.is_unfinished && kind != ActionKind::Step);
    }

    /// Counts all spans of a step as one call.
    fn count_step(&mut self, event: &Event, id: NodeId) {
        let (started, end) = (event.start.ticks(), event.end.ticks());
        let duration = end.saturating_sub(started);
        match &mut self.step {
            Some(step) if (step.id, step.number) == (id, event.sequence) => {
                step.started = started;
                step.duration += duration;
            }
            _ => {
                self.end_step();
                self.step = Some(StepCall { id, number: event.sequence, started, duration });
            }
        }
    }

    fn end_step(&mut self) {
        if let Some(StepCall { id, started, duration, .. }) = self.step.take() {
            self.tree.nodes[id as usize].calls.add(started, duration);
        }
    }

    /// Assigns an allocation or deallocation to the innermost open scope.
    fn change_memory(&mut self, stack: &mut Vec<Open<NodeId>>, change: &MemoryEvent) {
        let time = change.time.ticks();
        while stack.last().is_some_and(|open| open.start > time) {
            stack.pop();
        }
        // A driver call that allocates does so for the op around it.
        let is_scope =
            |open: &&Open<NodeId>| self.tree.nodes[open.what as usize].kind != ActionKind::Launch;
        let id = match stack.iter().rev().find(is_scope) {
            Some(open) => open.what,
            None => {
                let id = self.tree.node(PathKey::plain(NOWHERE, Action::op(UNCLAIMED_MEMORY)));
                self.tree.nodes[id as usize].calls.add(time, 0);
                id
            }
        };
        let bytes = change.change.bytes;
        let sum = self.memory.entry((id, change.change.device)).or_default();
        match bytes >= 0 {
            true => sum.allocated += bytes.unsigned_abs(),
            false => sum.freed += bytes.unsigned_abs(),
        }
    }
}

/// Finds the modules in which each forward op ran, so that the backward op can be assigned to the
/// same modules.
pub(super) struct ModuleFinder<'profile> {
    pub(super) tree: &'profile mut PathTree,
    pub(super) links: &'profile mut Links,
    kinds: Kinds,
}

impl<'profile> ModuleFinder<'profile> {
    pub(super) fn new(tree: &'profile mut PathTree, links: &'profile mut Links) -> Self {
        Self { tree, links, kinds: Kinds::default() }
    }

    /// Processes one thread's events in chronological order.
    pub(super) fn track(&mut self, events: impl DoubleEndedIterator<Item = Event>) {
        let mut stack: Vec<Open<ChainId>> = Vec::new();
        for event in events.rev() {
            let kind = self.kinds.of(event.action);
            let is_forward_op = kind == ActionKind::Op
                && event.sequence != 0
                && event.direction == Direction::Forward;
            if kind != ActionKind::Module && !is_forward_op {
                continue;
            }
            let around = parent(&mut stack, &event).map(|open| open.what);
            let around = match event.context {
                Some(context) => self.modules_of(self.links.context(context)),
                None => around,
            };
            if is_forward_op {
                self.note(&event, around);
            } else if !event.overlaps {
                let modules = self.tree.modules.call(around, event.action);
                stack.push(Open::new(&event, None, modules));
            }
        }
    }

    fn modules_of(&self, id: NodeId) -> Option<ChainId> {
        self.tree.nodes.get(id as usize)?.modules
    }

    /// Records the modules of a forward op. Several ops may have the same number; the backward op
    /// belongs to the one that began last.
    fn note(&mut self, event: &Event, modules: Option<ChainId>) {
        let Some(modules) = modules else { return };
        let key = (event.sequence, event.forward_thread);
        let start = event.start.ticks();
        let known = self.links.forward_modules.entry(key).or_insert((start, modules));
        if start > known.0 {
            *known = (start, modules);
        }
    }
}
