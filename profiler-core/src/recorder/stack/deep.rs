//! Parts of a stack other than its current frames: the list of chunks and the detached scopes.

use rustc_hash::FxHashMap;

use super::frames::{Chunk, Frame};
use super::{Closed, Open};
use mlprof_events::Action;
use mlprof_events::sync::Ordering;

/// Number of chunks that the list can hold without a new allocation: about four thousand nested
/// scopes.
const LISTED: usize = 32;

/// Number of unused chunks kept above the current one for reuse.
const SPARE: usize = 1;

/// Scope that outlives its enclosing scope, because its guard was leaked or dropped too late. New
/// scopes are no longer inside it.
pub(super) struct Detached<R> {
    started: u64,
    children: u64,
    record: *const R,
}

pub(super) struct Deep<R> {
    /// Chunks of the stack. The first always exists, and all chunks before the current one are
    /// full.
    pub(super) chunks: Vec<Chunk<R>>,
    /// Index of the chunk that contains the top frame.
    pub(super) current: usize,
    detached: FxHashMap<Action, Vec<Detached<R>>>,
    /// Number of open scopes of each action in the first `counted` chunks. It is used to find a
    /// scope outside the current chunk, so that each chunk is scanned once instead of at every
    /// search.
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

    /// Makes the next chunk the current one. Returns `None` if there is no memory for a new chunk.
    pub(super) fn go_up(&mut self) -> Option<&Chunk<R>> {
        if self.current + 1 == self.chunks.len() {
            self.chunks.push(Chunk::further()?);
        }
        self.current += 1;
        // SAFETY: the base frame is inside the chunk, which `chunks` owns.
        unsafe { &*self.chunk().base() }.children.set(0);
        Some(self.chunk())
    }

    /// Makes the previous chunk the current one. Adds the time of the scopes in the left chunk to
    /// its last scope.
    pub(super) fn go_down(&mut self) -> &Chunk<R> {
        // SAFETY: the base frame is inside the chunk, which `chunks` owns.
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
        // SAFETY: the last frame is inside the chunk, which `chunks` owns.
        unsafe { &*self.chunk().last() }.children.add(inside);
        self.chunk()
    }

    /// Returns `true` if a scope of the action is open in a chunk before the current one.
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
        // A detached scope has no enclosing scope.
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

/// Scope that is being detached.
pub(crate) struct Overtaken<R> {
    pub(crate) action: Action,
    pub(crate) record: *const R,
    /// `true` if the scope was inside another one of its action.
    pub(crate) is_recursive: bool,
    started: u64,
    children: u64,
}

impl<R> Overtaken<R> {
    /// Returns the scope in `frame`, read by its owning thread.
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
