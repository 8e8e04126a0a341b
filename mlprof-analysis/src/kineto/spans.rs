//! Slices that consist of a begin event and an end event.
//!
//! Chrome's event kinds `B` and `E` nest on their thread. The kinds `b` and `e` (formerly `S` and
//! `F`) are matched by category and id and may overlap. Events need not be sorted by time.

use rustc_hash::FxHashMap;

use super::losses::Losses;
use crate::trace::RawSlice;

/// Scope within which begin and end events are matched.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Scope {
    /// A thread, identified by its track number.
    Thread(u32),
    /// Asynchronous slices of one id: track number, and category and id as text.
    Id(u32, String),
}

/// Maximum number of open slices that are searched for the name of an end event.
const DEEPEST: usize = 1000;

/// A begin or end event.
#[derive(Debug)]
struct Mark {
    scope: u32,
    time: i64,
    /// The slice that begins, or the name given by an end event.
    slice: RawSlice,
    is_end: bool,
    has_name: bool,
}

/// All begin and end events of a trace.
#[derive(Debug, Default)]
pub(super) struct Spans {
    scopes: FxHashMap<Scope, u32>,
    marks: Vec<Mark>,
}

impl Spans {
    /// Adds a begin event. `slice` is complete except for its duration.
    pub(super) fn begin(&mut self, scope: Scope, slice: RawSlice) {
        self.add(scope, slice, false, true);
    }

    /// Adds an end event. `slice` contains its time, and also its name if `has_name` is set.
    pub(super) fn end(&mut self, scope: Scope, slice: RawSlice, has_name: bool) {
        self.add(scope, slice, true, has_name);
    }

    fn add(&mut self, scope: Scope, slice: RawSlice, is_end: bool, has_name: bool) {
        let next = self.scopes.len() as u32; // fewer than events
        let scope = *self.scopes.entry(scope).or_insert(next);
        self.marks.push(Mark { scope, time: slice.start, slice, is_end, has_name });
    }

    /// Matches all events and passes the resulting slices to `slice`.
    pub(super) fn finish(mut self, losses: &mut Losses, mut slice: impl FnMut(RawSlice)) {
        // The sort is stable, so events at the same time keep their order in the file.
        self.marks.sort_by_key(|mark| (mark.scope, mark.time));
        let mut open: Vec<RawSlice> = Vec::new();
        let mut scope = None;
        for mark in self.marks {
            if scope != Some(mark.scope) {
                losses.without_end += open.len() as u64;
                open.clear();
                scope = Some(mark.scope);
            }
            if !mark.is_end {
                open.push(mark.slice);
                continue;
            }
            // An end event without a name closes the innermost slice. An end event whose name is
            // not open also closes the innermost slice, because some recorders write a different
            // name there.
            let near = open.len().saturating_sub(DEEPEST);
            let named = || {
                let place = open[near..].iter().rposition(|begun| begun.name == mark.slice.name)?;
                Some(near + place)
            };
            let place = mark.has_name.then(named).flatten().or(open.len().checked_sub(1));
            match place {
                Some(place) => {
                    let begun = open.remove(place);
                    slice(RawSlice { duration: mark.time - begun.start, ..begun });
                }
                None => losses.without_beginning += 1,
            }
        }
        losses.without_end += open.len() as u64;
    }
}
