//! Time of each step, by phase and with the action that took the most time.
//!
//! Only the thread that runs the loop counts. Its scopes lie within the span of a step, so the
//! parts add up to the step. Time in which that thread waits for others belongs to the part that
//! waits.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::tree::{Node, NodeId};
use crate::cycle::Event;
use mlprof_events::Action;
use mlprof_events::OrderExt;
use mlprof_report::internals::{StepParts, StepTicks};

/// Self time of a path in the current step.
#[derive(Debug, Clone, Copy, Default)]
struct Own {
    /// Number of the step's span. If it is another span, the value counts as zero.
    span: u64,
    ticks: i64,
}

/// Divides the steps of a cycle into parts while its events are processed, the last ones first.
#[derive(Debug, Default)]
pub(super) struct StepSplit {
    /// Current span. `spans` is the number of spans so far.
    current: Option<Event>,
    spans: u64,
    /// Self times, indexed by [`NodeId`].
    own: Vec<Own>,
    touched: Vec<NodeId>,
    over: Vec<StepTicks>,
}

impl StepSplit {
    /// Begins a step. The following events ended before the end of this step.
    pub(super) fn begin(&mut self, step: &Event, nodes: &[Node]) {
        self.end_track(nodes);
        self.spans += 1;
        // A truncated step is ignored.
        self.current = (!step.is_unfinished).then_some(*step);
    }

    /// Adds a scope. `around` is the enclosing scope on its thread.
    #[inline]
    pub(super) fn add(&mut self, event: &Event, id: NodeId, around: Option<NodeId>) {
        let Some(step) = &self.current else { return };
        // A scope that began before the step encloses it.
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

    /// Completes the current span.
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
        // Among equal times the choice is deterministic.
        let slowest = actions.into_iter().max_by_key(|(action, ticks)| (*ticks, *action));
        self.over.push(StepTicks {
            number: u64::from(step.sequence),
            started: step.start.ticks(),
            elapsed: step.end.ticks().saturating_sub(step.start.ticks()),
            parts,
            slowest: slowest.filter(|(_, ticks)| *ticks > 0),
        });
    }

    /// Returns the steps with these numbers, in order. A step that was interrupted by a validation
    /// has several spans, which are merged.
    pub(super) fn take(&mut self, steps: &Range<u64>) -> Vec<StepTicks> {
        let mut over = std::mem::take(&mut self.over);
        // The step number in a span has 32 bits.
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
