//! Conversion of a cycle's events to stacks.

use std::collections::HashMap;

use super::{FlameGraph, NOWHERE, NodeId};
use crate::cycle::{Cycle, Event, MemoryEvent, Track};
use crate::nest::Nest;
use crate::walk::{Recorded, backwards};
use mlprof_events::{Action, ActionKind, Context, TimingMethod};

/// Name for memory that was allocated outside of all scopes.
const UNCLAIMED_MEMORY: &str = "[memory]";

/// Adds the events of `cycle` to `graph`.
pub(super) fn collect(graph: &mut FlameGraph, cycle: &Cycle) {
    let mut collector =
        Collector { graph, cycle, launches: HashMap::new(), contexts: HashMap::new() };
    for track in cycle.tracks() {
        collector.track(track);
    }
    collector.devices();
}

struct Collector<'cycle> {
    graph: &'cycle mut FlameGraph,
    cycle: &'cycle Cycle,
    /// Stack that launched device work, by correlation number.
    launches: HashMap<u32, NodeId>,
    contexts: HashMap<Context, NodeId>,
}

/// An open scope.
#[derive(Clone, Copy)]
struct Open {
    node: NodeId,
    context: Option<Context>,
}

impl Collector<'_> {
    fn track(&mut self, track: &Track) {
        let mut open = Nest::new();
        for recorded in backwards(track) {
            match recorded {
                Recorded::Event(event) => self.event(&mut open, &event),
                Recorded::Memory(change) => self.memory(&mut open, &change),
            }
        }
    }

    fn event(&mut self, open: &mut Nest<Open>, event: &Event) {
        let start = self.cycle.nanoseconds_since_start(event.start);
        let end = self.cycle.nanoseconds_since_start(event.end).max(start);
        let nests = !event.overlaps && open.fits(start, end);
        let around = if nests { open.parent(start, end) } else { open.around(start) }.copied();
        let parent = match event.context {
            Some(context) if around.and_then(|open| open.context) != Some(context) => {
                self.context(context)
            }
            _ => around.map_or(NOWHERE, |open| open.node),
        };
        let node = self.of_event(parent, event.action);
        let calls = i64::from(self.graph.is_call(node, event.action));
        if let Some(values) = self.graph.values(node) {
            values.calls += calls;
            values.cpu += if nests { end - start } else { 0 };
        }
        if event.sequence != 0 && event.action.kind() == ActionKind::Launch {
            self.launches.insert(event.sequence, node);
        }
        if !nests {
            return;
        }
        if let Some(values) = around.and_then(|around| self.graph.values(around.node)) {
            values.cpu -= end - start;
        }
        let context = event.context.or_else(|| around.and_then(|around| around.context));
        open.push(start, end, Open { node, context });
    }

    /// Returns the stack of an event of `action` below `parent`.
    fn of_event(&mut self, parent: NodeId, action: Action) -> NodeId {
        let node = self.graph.node(parent, action);
        self.graph.cut += u64::from(self.graph.is_cut(node));
        node
    }

    fn memory(&mut self, open: &mut Nest<Open>, event: &MemoryEvent) {
        if event.change.bytes <= 0 {
            return;
        }
        let time = self.cycle.nanoseconds_since_start(event.time);
        let node = match open.at(time) {
            Some(open) => open.node,
            None => self.graph.node(NOWHERE, Action::op(UNCLAIMED_MEMORY)),
        };
        if let Some(values) = self.graph.values(node) {
            values.allocated = values.allocated.saturating_add(event.change.bytes);
        }
    }

    /// Returns the stack that was open at a call site on another thread.
    fn context(&mut self, context: Context) -> NodeId {
        if let Some(node) = self.contexts.get(&context) {
            return *node;
        }
        let actions = self.cycle.context(context).map_or(&[][..], |context| context.actions);
        let node = actions.iter().fold(NOWHERE, |node, action| self.graph.node(node, *action));
        self.contexts.insert(context, node);
        node
    }

    fn devices(&mut self) {
        for event in &self.cycle.device_events {
            if event.method == TimingMethod::None || !event.activity.is_device_work() {
                continue;
            }
            let launch = self.launches.get(&event.correlation).copied();
            let parent = match (launch, event.context) {
                (Some(launch), _) => launch,
                (None, Some(context)) => self.context(context),
                (None, None) => NOWHERE,
            };
            let node = self.of_event(parent, event.action);
            let time = self.cycle.nanoseconds_between(event.start, event.end);
            if let Some(values) = self.graph.values(node) {
                values.calls += 1;
                values.device = values.device.saturating_add(time.cast_signed());
            }
        }
    }
}
