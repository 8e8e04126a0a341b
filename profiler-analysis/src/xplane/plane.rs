//! A plane while it is filled: names are written once.

use std::collections::HashMap;

use super::messages::{Value, XEventMetadata, XLine, XPlane, XStat, XStatMetadata};

pub(super) struct Plane {
    plane: XPlane,
    events: HashMap<(String, String), i64>,
    stats: HashMap<&'static str, i64>,
}

impl Plane {
    pub(super) fn new(id: i64, name: String) -> Self {
        let plane = XPlane { id, name, ..XPlane::default() };
        Self { plane, events: HashMap::new(), stats: HashMap::new() }
    }

    /// The number of a name, and what is shown in its place.
    pub(super) fn event(&mut self, name: &str, shown: &str) -> i64 {
        let key = (name.to_owned(), shown.to_owned());
        if let Some(id) = self.events.get(&key) {
            return *id;
        }
        let id = self.events.len() as i64 + 1; // memory ends before that does
        let shown = if shown == name { String::new() } else { shown.to_owned() };
        let metadata = XEventMetadata { id, name: name.to_owned(), display_name: shown };
        self.plane.event_metadata.insert(id, metadata);
        self.events.insert(key, id);
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

    /// Of the whole plane.
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
