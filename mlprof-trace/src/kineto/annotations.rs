//! Actions on device tracks: on each stream, from the first kernel that an action launched to the
//! last one. Steps are omitted, because TensorBoard's plugin and HolisticTraceAnalysis would count
//! them as additional steps.

use rustc_hash::FxHashMap;

use crate::cycle::Event;
use mlprof_events::{Action, ActionKind, DeviceEvent};

/// An action of a thread.
#[derive(Debug, Clone, Copy)]
struct Annotation {
    action: Action,
    /// Index of the enclosing action.
    parent: Option<u32>,
}

/// Device work for one action on one stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Span {
    pub(super) action: Action,
    pub(super) device: u32,
    pub(super) stream: u32,
    pub(super) start: i64,
    pub(super) end: i64,
}

/// Map from launches to the actions in which they were made. Its memory depends on the number of
/// actions and launches.
#[derive(Debug, Default)]
pub(super) struct Annotations {
    all: Vec<Annotation>,
    launches: FxHashMap<u32, u32>,
    /// Actions that are open around the latest event, each with its start time and its index.
    open: Vec<(i64, u32)>,
    spans: FxHashMap<(u32, u32, u32), (i64, i64)>,
}

impl Annotations {
    /// Begins the events of another thread.
    pub(super) fn begin_thread(&mut self) {
        self.open.clear();
    }

    /// Adds an event of the thread. Later events must not end after this one.
    pub(super) fn see(&mut self, event: &Event, kind: ActionKind, start: i64) {
        if event.overlaps {
            return;
        }
        while self.open.last().is_some_and(|(open, _)| *open > start) {
            self.open.pop();
        }
        let around = self.open.last().map(|(_, place)| *place);
        if matches!(kind, ActionKind::Action | ActionKind::Module) {
            let place = self.all.len() as u32; // bounded by the events of a cycle
            self.all.push(Annotation { action: event.action, parent: around });
            self.open.push((start, place));
        } else if kind == ActionKind::Launch
            && event.sequence != 0
            && let Some(around) = around
        {
            self.launches.insert(event.sequence, around);
        }
    }

    /// Adds the run of a launched event from `start` to `end`.
    pub(super) fn ran(&mut self, event: &DeviceEvent, start: i64, end: i64) {
        let mut around = self.launches.get(&event.correlation).copied();
        while let Some(place) = around {
            let key = (place, event.device, event.stream);
            let span = self.spans.entry(key).or_insert((start, end));
            *span = (span.0.min(start), span.1.max(end));
            around = self.all[place as usize].parent;
        }
    }

    /// Returns all spans.
    pub(super) fn spans(&self) -> impl Iterator<Item = Span> + '_ {
        self.spans.iter().map(|((place, device, stream), (start, end))| {
            let action = self.all[*place as usize].action;
            Span { action, device: *device, stream: *stream, start: *start, end: *end }
        })
    }
}
