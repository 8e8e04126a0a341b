//! XProf plane of the host's threads.

use super::Source;
use std::cmp::Reverse;

use super::memory::Memory;
use super::messages::{XEvent, XPlane};
use super::op_names;
use super::plane::{EventName, Plane};
use crate::trace::{Category, Slice, TrackKind};

/// Event name that XProf interprets as waiting for input.
const INPUT: &str = "IteratorGetNext";

pub(super) fn plane(source: &Source<'_>) -> XPlane {
    let mut plane = Plane::new(1, "/host:CPU".to_owned());
    let memory = Memory::of(source.trace);
    for (place, track) in source.trace.tracks.iter().enumerate() {
        if track.kind == TrackKind::Stream {
            continue;
        }
        let slices = track.slices.clone().filter(|place| !source.is_on_device(*place));
        let mut events: Vec<XEvent> =
            slices.map(|place| event(source, place, &mut plane)).collect();
        events.extend(memory.of_track(source, place as u32, &mut plane));
        events.sort_by_key(|event| (event.offset_ps, Reverse(event.duration_ps)));
        plane.line(source.line(place, track, events));
    }
    plane.finish()
}

fn event(source: &Source<'_>, place: usize, plane: &mut Plane) -> XEvent {
    let slice = &source.trace.slices[place];
    let own = || source.trace.name(slice).to_owned();
    if let Some(step) = source.meanings.step(slice) {
        let id = plane.event(EventName::Step(slice.name), || ("ProfilerStep".to_owned(), own()));
        let mut event = source.event(slice, id);
        // `_r` marks the event as a step root, which XProf requires.
        event.stats.push(plane.number("step_num", step.cast_signed()));
        event.stats.push(plane.number("_r", 1));
        return event;
    }
    let id = match slice.category {
        Category::CpuOp => {
            let key = EventName::Op(slice.name, source.meanings.module(place));
            plane.event(key, || (source.op(place), own()))
        }
        _ if source.begins_waiting_for_data(place) => {
            plane.event(EventName::Input(slice.name), || (INPUT.to_owned(), own()))
        }
        _ => plane.event(EventName::Own(slice.name), || (own(), own())),
    };
    let mut event = source.event(slice, id);
    if slice.correlation != 0 && slice.category.is_runtime() {
        event.stats.push(plane.number("correlation_id", slice.correlation.into()));
    }
    let details = source.trace.details(slice);
    if let Some(details) = details.filter(|details| details.flops > 0) {
        event.stats.push(plane.number("flops", details.flops.cast_signed()));
    }
    let shapes = details.map_or("", |details| source.trace.names.text(details.shapes));
    if !shapes.is_empty() {
        event.stats.push(plane.text("shapes", shapes));
    }
    event
}

impl Source<'_> {
    /// Returns an op's name in XProf's format.
    pub(super) fn op(&self, place: usize) -> String {
        let module = self.meanings.module(place).map_or("", |name| self.trace.names.text(name));
        op_names::op(module, self.trace.name(&self.trace.slices[place]))
    }

    /// Returns `true` for the outermost slice of a wait for data. Slices nested in it belong to the
    /// same wait.
    fn begins_waiting_for_data(&self, place: usize) -> bool {
        let is_around =
            |slice: &Slice| slice.parent().is_some_and(|around| self.meanings.is_in_data(around));
        self.meanings.is_in_data(place) && !is_around(&self.trace.slices[place])
    }

    fn is_on_device(&self, place: usize) -> bool {
        self.trace.slices[place].category.is_on_device()
    }
}
