//! What must be known of a cycle before its first event is written.

use rustc_hash::FxHashMap;

use super::engine::EngineScopes;
use super::fragments::Names;
use crate::cycle::{Cycle, Event, clock_shifts, early};
use mlprof_events::{ActionKind, DeviceActivity, DeviceEvent, Direction, ShapeList};

/// The arrows of a trace, and what is in it. Its memory depends on the number of backward ops and
/// launches, not on that of all events.
#[derive(Default)]
pub(super) struct Index {
    pub(super) has_shapes: bool,
    pub(super) has_memory: bool,
    pub(super) links: FxHashMap<u64, Link>,
    pub(super) launches: FxHashMap<u32, Launch>,
    pub(super) engine_scopes: EngineScopes,
    /// How much later than its own clock says each device's events are written, in nanoseconds.
    pub(super) shifts: FxHashMap<u32, i64>,
}

/// A forward op and the backward op that belongs to it. Events are known by their place in the
/// order of all tracks.
pub(super) struct Link {
    pub(super) number: u32,
    forward: Option<(i64, u64)>,
    backward: (i64, u64),
}

/// A call that handed work to a device.
pub(super) struct Launch {
    /// The first device event that it caused.
    pub(super) device_event: usize,
    /// When the call began; `None` if it is not in the cycle.
    pub(super) start: Option<i64>,
    /// The op that it was made in; 0 if there is none.
    pub(super) external_id: u64,
}

/// Which end of an arrow an event is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkEnd {
    Forward,
    Backward,
}

/// What ties forward to backward ops: the forward op's thread and the sequence number.
fn link_key(event: &Event) -> u64 {
    (u64::from(event.forward_thread) << 32) | u64::from(event.sequence)
}

impl Index {
    pub(super) fn of(cycle: &Cycle, names: &mut Names) -> Self {
        let has_memory = cycle.tracks().iter().any(|track| track.memory_event_count() > 0);
        let mut index = Self { has_memory, ..Self::default() };
        for (number, event) in cycle.device_events.iter().enumerate() {
            let is_wait = event.activity == DeviceActivity::Synchronization;
            if event.correlation != 0 && !is_wait {
                let launch = Launch { device_event: number, start: None, external_id: 0 };
                index.launches.entry(event.correlation).or_insert(launch);
            }
        }
        let mut place = 0;
        for track in cycle.tracks() {
            index.engine_scopes.begin_thread();
            for event in track.events() {
                place += 1;
                index.has_shapes |= event.shapes != ShapeList::NONE;
                index.engine_scopes.see(names, place, &event);
                if event.sequence != 0 {
                    index.add_numbered(cycle, names, place, &event);
                }
            }
        }
        if !index.links.is_empty() {
            index.add_forward(cycle, names);
        }
        index.shifts = clock_shifts(cycle, |event| index.launched(event));
        index
    }

    fn add_numbered(&mut self, cycle: &Cycle, names: &mut Names, place: u64, event: &Event) {
        let start = cycle.nanoseconds_since_start(event.start);
        match names.kind(event.action) {
            ActionKind::Launch => {
                if let Some(launch) = self.launches.get_mut(&event.sequence) {
                    launch.start = Some(start);
                }
            }
            ActionKind::Op if event.direction == Direction::Backward => {
                let number = self.links.len() as u32 + 1; // as many as backward ops
                let first = Link { number, forward: None, backward: (start, place) };
                let link = self.links.entry(link_key(event)).or_insert(first);
                // Of a backward op and those inside it the outermost, which began first.
                link.backward = link.backward.min((start, place));
            }
            _ => {}
        }
    }

    /// The forward end of every link: of ops with one number the last to begin before the backward
    /// op, which is the innermost one: it is the one that the framework counted.
    fn add_forward(&mut self, cycle: &Cycle, names: &mut Names) {
        for (place, event) in events(cycle) {
            let is_forward = event.sequence != 0 && event.direction == Direction::Forward;
            if is_forward
                && names.kind(event.action) == ActionKind::Op
                && let Some(link) = self.links.get_mut(&link_key(&event))
            {
                let start = cycle.nanoseconds_since_start(event.start);
                if start <= link.backward.0 {
                    link.forward = link.forward.max(Some((start, place)));
                }
            }
        }
    }

    /// When an event's launch began.
    fn launched(&self, event: &DeviceEvent) -> Option<i64> {
        self.launches.get(&event.correlation)?.start
    }

    /// How long before its launch an event seems to have run even in a time line that is shifted.
    pub(super) fn unexplained(&self, cycle: &Cycle, event: &DeviceEvent) -> Option<i64> {
        let shift = self.shifts.get(&event.device).copied().unwrap_or(0);
        let early = early(cycle, event, |event| self.launched(event))?;
        Some(early - shift).filter(|early| *early > 0)
    }

    /// The arrow that begins or ends at an event.
    pub(super) fn link_of(&self, place: u64, event: &Event) -> Option<(u32, LinkEnd)> {
        if event.sequence == 0 || self.links.is_empty() {
            return None;
        }
        let link = self.links.get(&link_key(event))?;
        let forward = link.forward?.1;
        if forward == place {
            Some((link.number, LinkEnd::Forward))
        } else if link.backward.1 == place {
            Some((link.number, LinkEnd::Backward))
        } else {
            None
        }
    }
}

/// All events and their places, from 1.
fn events(cycle: &Cycle) -> impl Iterator<Item = (u64, Event)> + '_ {
    (1..).zip(cycle.tracks().iter().flat_map(|track| track.events()))
}
