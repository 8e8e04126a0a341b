//! Slices whose beginning and end are two events.
//!
//! Chrome's kinds `B` and `E` are nested on their thread; `b` and `e` (formerly `S` and `F`) belong
//! together by category and id and may overlap. Events need not stand in the order of time.

use rustc_hash::FxHashMap;

use super::losses::Losses;
use crate::trace::RawSlice;

/// Where a pair of events belongs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Scope {
    /// A thread, by the number of its track.
    Thread(u32),
    /// Asynchronous slices with one id: track, category and id as text.
    Id(u32, String),
}

/// So many open slices are compared with the name of an end.
const DEEPEST: usize = 1000;

/// A beginning or an end.
#[derive(Debug)]
struct Mark {
    scope: u32,
    time: i64,
    /// The slice that begins, or the name that an end gives.
    slice: RawSlice,
    is_end: bool,
    has_name: bool,
}

/// All beginnings and ends of a trace.
#[derive(Debug, Default)]
pub(super) struct Spans {
    scopes: FxHashMap<Scope, u32>,
    marks: Vec<Mark>,
}

impl Spans {
    /// Adds a beginning, with all of the slice but its duration.
    pub(super) fn begin(&mut self, scope: Scope, slice: RawSlice) {
        self.add(scope, slice, false, true);
    }

    /// Adds an end; `slice` has its time, and its name if `has_name`.
    pub(super) fn end(&mut self, scope: Scope, slice: RawSlice, has_name: bool) {
        self.add(scope, slice, true, has_name);
    }

    fn add(&mut self, scope: Scope, slice: RawSlice, is_end: bool, has_name: bool) {
        let next = self.scopes.len() as u32; // fewer than events
        let scope = *self.scopes.entry(scope).or_insert(next);
        self.marks.push(Mark { scope, time: slice.start, slice, is_end, has_name });
    }

    /// Hands all slices to `slice`.
    pub(super) fn finish(mut self, losses: &mut Losses, mut slice: impl FnMut(RawSlice)) {
        // Stable: of one moment the order of the file counts.
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
            // An end without a name is that of the innermost one. One with a name that is not open
            // is taken for the innermost one as well: some recorders write another name there.
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
