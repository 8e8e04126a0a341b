//! Information about a cycle that must be known before its first event is written.

use rustc_hash::FxHashMap;

use super::engine::EngineScopes;
use super::fragments::Names;
use crate::cycle::{Cycle, Event, clock_shifts, early};
use mlprof_events::{ActionKind, DeviceActivity, DeviceEvent, Direction, ShapeList};

/// Arrows and contents of a trace. The memory depends on the number of backward ops and launches,
/// and not on the number of all events.
#[derive(Default)]
pub(super) struct Index {
    pub(super) has_shapes: bool,
    pub(super) has_memory: bool,
    pub(super) links: FxHashMap<u64, Link>,
    pub(super) launches: FxHashMap<u32, Launch>,
    pub(super) engine_scopes: EngineScopes,
    /// Shift of each device's events relative to its own clock, in nanoseconds.
    pub(super) shifts: FxHashMap<u32, i64>,
}

/// A forward op and its backward op. Events are identified by their position in the order of all
/// tracks.
pub(super) struct Link {
    pub(super) number: u32,
    forward: Option<(i64, u64)>,
    backward: (i64, u64),
}

/// A call that submitted work to a device.
pub(super) struct Launch {
    /// Index of the first device event that it caused.
    pub(super) device_event: usize,
    /// Start of the call; `None` if it is not in the cycle.
    pub(super) start: Option<i64>,
    /// Number of the op in which it was made; 0 if there is none.
    pub(super) external_id: u64,
}

/// End of an arrow at which an event is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum LinkEnd {
    Forward,
    Backward,
}

/// Returns the key that connects forward and backward ops: the forward op's thread and the sequence
/// number.
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
                // Among a backward op and the ops inside it, the outermost counts, which began
                // first.
                link.backward = link.backward.min((start, place));
            }
            _ => {}
        }
    }

    /// Finds the forward end of every link. Among ops with the same number it is the last that
    /// began before the backward op. That is the innermost op, which is the one that the framework
    /// numbered.
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

    /// Returns the start of an event's launch.
    fn launched(&self, event: &DeviceEvent) -> Option<i64> {
        self.launches.get(&event.correlation)?.start
    }

    /// Returns by how many nanoseconds an event still appears to run before its launch after the
    /// shift.
    pub(super) fn unexplained(&self, cycle: &Cycle, event: &DeviceEvent) -> Option<i64> {
        let shift = self.shifts.get(&event.device).copied().unwrap_or(0);
        let early = early(cycle, event, |event| self.launched(event))?;
        Some(early - shift).filter(|early| *early > 0)
    }

    /// Returns the arrow that begins or ends at an event.
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

/// Returns all events with their positions, starting at 1.
fn events(cycle: &Cycle) -> impl Iterator<Item = (u64, Event)> + '_ {
    (1..).zip(cycle.tracks().iter().flat_map(|track| track.events()))
}
