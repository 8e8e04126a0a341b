//! What a stack holds besides its innermost frames: further chunks, and scopes that were overtaken.

use rustc_hash::FxHashMap;

use super::frames::{Chunk, Frame};
use super::{Closed, Open};
use mlprof_events::Action;
use mlprof_events::sync::Ordering;

/// So many chunks are listed without memory for the list: some four thousand scopes inside each other.
const LISTED: usize = 32;

/// Chunks that are kept above the one in use, for the next time.
const SPARE: usize = 1;

/// A scope whose surrounding scope has ended: its guard was leaked, or outlived the other's. It is
/// no longer what new scopes are inside of.
pub(super) struct Detached<R> {
    started: u64,
    children: u64,
    record: *const R,
}

pub(super) struct Deep<R> {
    /// The first one is there from the beginning, and all up to the one in use are full.
    pub(super) chunks: Vec<Chunk<R>>,
    /// The one that the top is in.
    pub(super) current: usize,
    detached: FxHashMap<Action, Vec<Detached<R>>>,
    /// How many scopes of each action are open in the first `counted` chunks: asked when a scope is
    /// looked for that is not in the chunk in use, so that chunks are gone through once and not at
    /// every question.
    counts: FxHashMap<Action, usize>,
    counted: usize,
}

impl<R> Deep<R> {
    pub(super) fn new(first: Chunk<R>) -> Self {
        let mut chunks = Vec::with_capacity(LISTED);
        chunks.push(first);
        Self {
            chunks,
            current: 0,
            detached: FxHashMap::default(),
            counts: FxHashMap::default(),
            counted: 0,
        }
    }

    pub(super) fn chunk(&self) -> &Chunk<R> {
        &self.chunks[self.current]
    }

    /// Makes the next chunk the one in use; `None` if there is no memory for one.
    pub(super) fn go_up(&mut self) -> Option<&Chunk<R>> {
        if self.current + 1 == self.chunks.len() {
            self.chunks.push(Chunk::further()?);
        }
        self.current += 1;
        // SAFETY: a chunk's own base.
        unsafe { &*self.chunk().base() }.children.set(0);
        Some(self.chunk())
    }

    /// Makes the chunk before the one in use that: its last scope gets the time of those that were
    /// inside of it.
    pub(super) fn go_down(&mut self) -> &Chunk<R> {
        // SAFETY: a chunk's own base.
        let inside = unsafe { &*self.chunk().base() }.children.get();
        self.current -= 1;
        if self.counted > self.current {
            self.counted = self.current;
            for action in self.chunks[self.current].scopes().iter().filter_map(Frame::action) {
                if let Some(count) = self.counts.get_mut(&action) {
                    *count -= 1;
                    if *count == 0 {
                        self.counts.remove(&action);
                    }
                }
            }
        }
        self.chunks.truncate(self.current + 1 + SPARE);
        // SAFETY: a chunk's own last frame.
        unsafe { &*self.chunk().last() }.children.add(inside);
        self.chunk()
    }

    /// Whether a scope of the action is open in the chunks before the one in use.
    pub(super) fn is_open_below(&mut self, action: Action) -> bool {
        for chunk in &self.chunks[self.counted..self.current.max(self.counted)] {
            for action in chunk.scopes().iter().filter_map(Frame::action) {
                *self.counts.entry(action).or_default() += 1;
            }
        }
        self.counted = self.counted.max(self.current);
        self.counts.contains_key(&action)
    }

    pub(super) fn detach(&mut self, scope: &Overtaken<R>) {
        let Overtaken { action, started, children, record, .. } = *scope;
        self.detached.entry(action).or_default().push(Detached { started, children, record });
    }

    /// Closes the scope of the action that was detached last.
    pub(super) fn close_detached(&mut self, action: Action, now: u64) -> Option<Closed<R>> {
        let scopes = self.detached.get_mut(&action)?;
        let Detached { started, children, record } = scopes.pop()?;
        if scopes.is_empty() {
            self.detached.remove(&action);
        }
        let elapsed = now.wrapping_sub(started);
        // An overtaken scope is on its own.
        let (is_outermost, is_detached) = (true, true);
        Some(Closed { record, started, elapsed, children, is_outermost, is_detached })
    }

    pub(super) fn has_detached(&self) -> bool {
        !self.detached.is_empty()
    }

    pub(super) fn detached(&self) -> impl Iterator<Item = Open> {
        self.detached.iter().flat_map(|(action, scopes)| {
            scopes.iter().map(|scope| Open { action: *action, started: scope.started })
        })
    }
}

/// A scope that is being detached.
pub(crate) struct Overtaken<R> {
    pub(crate) action: Action,
    pub(crate) record: *const R,
    /// It was inside another one of its action.
    pub(crate) is_recursive: bool,
    started: u64,
    children: u64,
}

impl<R> Overtaken<R> {
    /// The scope as its own thread sees it.
    pub(super) fn of(frame: &Frame<R>) -> Option<Self> {
        Some(Self {
            action: frame.action()?,
            record: frame.record.load(Ordering::Relaxed).cast_const(),
            is_recursive: frame.is_recursive(),
            started: frame.started.load(Ordering::Relaxed),
            children: frame.children.get(),
        })
    }
}
