//! Builder of a plane, which writes each name once.

use std::collections::HashMap;

use rustc_hash::FxHashMap;

use super::messages::{Value, XEventMetadata, XLine, XPlane, XStat, XStatMetadata};
use crate::trace::Name;

/// Key of an event's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum EventName {
    /// The name in the trace.
    Own(Name),
    /// A step, whose number XProf needs.
    Step(Name),
    /// A wait of the loop for its input.
    Input(Name),
    /// An op in a module.
    Op(Name, Option<Name>),
    /// A copy from or to a device.
    Copy(Name),
    /// An allocation.
    Allocation,
    /// A free.
    Deallocation,
}

pub(super) struct Plane {
    plane: XPlane,
    events: FxHashMap<EventName, i64>,
    stats: HashMap<&'static str, i64>,
}

impl Plane {
    pub(super) fn new(id: i64, name: String) -> Self {
        let plane = XPlane { id, name, ..XPlane::default() };
        Self { plane, events: FxHashMap::default(), stats: HashMap::new() }
    }

    /// Returns the metadata id of an event name. For a new name, `name` returns the event's name
    /// and its display name.
    pub(super) fn event(&mut self, key: EventName, name: impl FnOnce() -> (String, String)) -> i64 {
        let next = self.events.len() as i64 + 1; // memory ends before that does
        let id = *self.events.entry(key).or_insert(next);
        if id == next {
            let (name, shown) = name();
            let display_name = if shown == name { String::new() } else { shown };
            self.plane.event_metadata.insert(id, XEventMetadata { id, name, display_name });
        }
        id
    }

    pub(super) fn stat(&mut self, name: &'static str, value: Value) -> XStat {
        let next = self.stats.len() as i64 + 1;
        let id = *self.stats.entry(name).or_insert(next);
        if id == next {
            self.plane.stat_metadata.insert(id, XStatMetadata { id, name: name.to_owned() });
        }
        XStat { metadata_id: id, value: Some(value) }
    }

    pub(super) fn number(&mut self, name: &'static str, value: i64) -> XStat {
        self.stat(name, Value::Signed(value))
    }

    pub(super) fn text(&mut self, name: &'static str, value: &str) -> XStat {
        self.stat(name, Value::Text(value.to_owned()))
    }

    /// Adds a value that applies to the whole plane.
    pub(super) fn say(&mut self, stat: XStat) {
        self.plane.stats.push(stat);
    }

    pub(super) fn line(&mut self, line: XLine) {
        self.plane.lines.push(line);
    }

    pub(super) fn finish(self) -> XPlane {
        self.plane
    }
}
