//! Each step's time, taken apart: by phase, and by what took the most of it.
//!
//! Of the thread that runs the loop alone, whose scopes lie within the span of a step: so parts add up
//! to the step. What that thread waits for on others is in the part that waits.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::tree::{Node, NodeId};
use crate::cycle::Event;
use mlprof_events::Action;
use mlprof_events::OrderExt;
use mlprof_report::internals::{StepParts, StepTicks};

/// A path's own time in the step that is gone through.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    /// The number of that step's span; of another one: nothing yet.
    span: u64,
    ticks: i64,
}

/// Takes the steps of a cycle apart while its events are gone through, the last ones first.
#[derive(Debug, Default)]
pub(super) struct StepSplit {
    /// The span that is gone through, and how many there were.
    current: Option<Event>,
    spans: u64,
    /// By [`NodeId`].
    own: Vec<Own>,
    touched: Vec<NodeId>,
    over: Vec<StepTicks>,
}

impl StepSplit {
    /// What comes from here on ended before the end of this step.
    pub(super) fn begin(&mut self, step: &Event, nodes: &[Node]) {
        self.end_track(nodes);
        self.spans += 1;
        // One that is cut off is no step.
        self.current = (!step.is_unfinished).then_some(*step);
    }

    /// A scope, and the one around it on its thread.
    #[inline]
    pub(super) fn add(&mut self, event: &Event, id: NodeId, around: Option<NodeId>) {
        let Some(step) = &self.current else { return };
        // What began before the step is around it.
        if event.start < step.start || event.end > step.end {
            return;
        }
        if self.own.len() <= id as usize {
            self.own.resize(id as usize + 1, Own::default());
        }
        let ticks = event.end.ticks().saturating_sub(event.start.ticks()).cast_signed();
        let own = &mut self.own[id as usize];
        if own.span == self.spans {
            own.ticks += ticks;
        } else {
            *own = Own { span: self.spans, ticks };
            self.touched.push(id);
        }
        let around = around.and_then(|around| self.own.get_mut(around as usize));
        if let Some(around) = around.filter(|around| around.span == self.spans) {
            around.ticks -= ticks;
        }
    }

    /// The running span is over, seen from its end.
    pub(super) fn end_track(&mut self, nodes: &[Node]) {
        let touched = std::mem::take(&mut self.touched);
        let Some(step) = self.current.take() else { return };
        let mut parts = StepParts::default();
        let mut actions: FxHashMap<Action, u64> = FxHashMap::default();
        for id in touched {
            let node = &nodes[id as usize];
            let ticks = self.own[id as usize].ticks.max(0).cast_unsigned();
            if let Some(part) = node.part {
                *part.of(&mut parts) += ticks;
            }
            *actions.entry(node.key.action).or_default() += ticks;
        }
        // Of equals always the same one.
        let slowest = actions.into_iter().max_by_key(|(action, ticks)| (*ticks, *action));
        self.over.push(StepTicks {
            number: u64::from(step.sequence),
            started: step.start.ticks(),
            elapsed: step.end.ticks().saturating_sub(step.start.ticks()),
            parts,
            slowest: slowest.filter(|(_, ticks)| *ticks > 0),
        });
    }

    /// The steps of these numbers, in order. One that was interrupted, by a validation, has several spans.
    pub(super) fn take(&mut self, steps: &Range<u64>) -> Vec<StepTicks> {
        let mut over = std::mem::take(&mut self.over);
        // The number in a span has 32 bits.
        let wanted = steps.start as u32..steps.end as u32;
        over.retain(|step| wanted.contains(&(step.number as u32)));
        over.order_by_key(|step| (step.number, step.started));
        over.dedup_by(|later, first| {
            let is_same = later.number == first.number;
            if is_same {
                first.elapsed += later.elapsed;
                first.parts += later.parts;
                let both = [first.slowest, later.slowest].into_iter().flatten();
                first.slowest = both.max_by_key(|(_, ticks)| *ticks);
            }
            is_same
        });
        over
    }
}
