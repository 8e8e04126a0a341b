//! A table from actions to records that one thread fills while any thread reads.

use std::ptr;

use crate::action::Action;
use crate::sync::{AtomicPtr, Ordering};

/// Chunk 0 holds this many entries, every further one twice as many as the one before it: entries
/// never move, and an action costs no more than two loads to find.
#[cfg(not(loom))]
const FIRST_CHUNK: usize = 32;
#[cfg(loom)]
const FIRST_CHUNK: usize = 1;
#[cfg(not(loom))]
const CHUNKS: usize = 27;
#[cfg(loom)]
const CHUNKS: usize = 6;

/// *Invariant*: only the owning thread inserts. Chunks and records are published with `Release`
/// after they are complete, never replaced, and freed only with the map.
pub(crate) struct ActionMap<R> {
    chunks: [AtomicPtr<AtomicPtr<R>>; CHUNKS],
}

// SAFETY: the map owns its records and hands out shared references only.
unsafe impl<R: Send + Sync> Send for ActionMap<R> {}
// SAFETY: as above; that only one thread inserts is the duty of the caller (see `get_or_insert`).
unsafe impl<R: Send + Sync> Sync for ActionMap<R> {}

impl<R> ActionMap<R> {
    pub(crate) fn new() -> Self {
        Self { chunks: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())) }
    }

    /// The record of `action`, made on its first use. Only the owning thread may call this.
    #[inline(always)]
    pub(crate) fn get_or_insert(&self, action: Action, make: impl FnOnce() -> R) -> &R {
        let (chunk, offset) = position(action.index());
        // SAFETY: `position` yields chunks below `CHUNKS` for every 32-bit index.
        let entries = unsafe { self.chunks.get_unchecked(chunk) }.load(Ordering::Relaxed);
        if !entries.is_null() {
            // SAFETY: a chunk has `FIRST_CHUNK << chunk` entries and `position` keeps the offset
            // below that.
            let record = unsafe { &*entries.add(offset) }.load(Ordering::Relaxed);
            if !record.is_null() {
                // SAFETY: records live as long as the map.
                return unsafe { &*record };
            }
        }
        self.insert(chunk, offset, make())
    }

    #[cold]
    #[inline(never)]
    fn insert(&self, chunk: usize, offset: usize, record: R) -> &R {
        let mut entries = self.chunks[chunk].load(Ordering::Relaxed);
        if entries.is_null() {
            let new: Box<[AtomicPtr<R>]> =
                (0..FIRST_CHUNK << chunk).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
            entries = Box::into_raw(new).cast();
            self.chunks[chunk].store(entries, Ordering::Release);
        }
        let record = Box::into_raw(Box::new(record));
        // SAFETY: in bounds as in `get_or_insert`.
        unsafe { &*entries.add(offset) }.store(record, Ordering::Release);
        // SAFETY: just made, and freed only with the map.
        unsafe { &*record }
    }

    /// All records with their actions. Any thread may call this.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Action, &R)> {
        self.chunks.iter().enumerate().flat_map(|(chunk, entries)| {
            let entries = entries.load(Ordering::Acquire);
            let length = if entries.is_null() { 0 } else { FIRST_CHUNK << chunk };
            (0..length).filter_map(move |offset| {
                // SAFETY: in bounds, and the chunk was published after it was made.
                let record = unsafe { &*entries.add(offset) }.load(Ordering::Acquire);
                // SAFETY: published after it was made; lives as long as the map.
                let record = unsafe { record.as_ref() }?;
                Some((Action::from_index((FIRST_CHUNK << chunk) - FIRST_CHUNK + offset)?, record))
            })
        })
    }
}

/// Chunk and offset of an index.
#[inline(always)]
fn position(index: usize) -> (usize, usize) {
    let shifted = index + FIRST_CHUNK;
    let chunk = (shifted.ilog2() - FIRST_CHUNK.ilog2()) as usize;
    (chunk, shifted - (FIRST_CHUNK << chunk))
}

impl<R> Drop for ActionMap<R> {
    fn drop(&mut self) {
        for (chunk, entries) in self.chunks.iter().enumerate() {
            let entries = entries.load(Ordering::Relaxed);
            if entries.is_null() {
                continue;
            }
            let slice = ptr::slice_from_raw_parts_mut(entries, FIRST_CHUNK << chunk);
            // SAFETY: made by `Box::into_raw` from a boxed slice of this length in `insert`, and
            // nobody else holds the map any more.
            let entries = unsafe { Box::from_raw(slice) };
            for record in &entries {
                let record = record.load(Ordering::Relaxed);
                if !record.is_null() {
                    // SAFETY: made by `Box::into_raw` in `insert` and stored in one place only.
                    drop(unsafe { Box::from_raw(record) });
                }
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn positions_cover_every_index_once() {
        let mut next = (0, 0);
        for index in 0..FIRST_CHUNK * 100 {
            assert_eq!(position(index), next, "index {index}");
            next.1 += 1;
            if next.1 == FIRST_CHUNK << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        assert!(position(u32::MAX as usize).0 < CHUNKS + 1);
    }

    #[test]
    fn records_are_found_again_and_listed_with_their_actions() {
        let map = ActionMap::new();
        let actions: Vec<Action> =
            (0..500).map(|number| Action::new(&format!("map-{number}"))).collect();
        for (number, action) in actions.iter().enumerate() {
            assert_eq!(*map.get_or_insert(*action, || number), number);
        }
        for (number, action) in actions.iter().enumerate() {
            assert_eq!(*map.get_or_insert(*action, || unreachable!("is there")), number);
        }
        let listed: Vec<(Action, usize)> = map.iter().map(|(action, n)| (action, *n)).collect();
        assert_eq!(listed.len(), 500);
        assert!(listed.iter().all(|(action, number)| actions[*number] == *action));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use super::*;
    use crate::sync::Tally;
    use loom::sync::Arc;
    use loom::thread;

    /// A reader finds a record either not at all or complete.
    #[test]
    fn records_are_published_complete() {
        let action = Action::new("loom-map");
        loom::model(move || {
            let map: Arc<ActionMap<Tally>> = Arc::new(ActionMap::new());
            let writer = {
                let map = map.clone();
                thread::spawn(move || map.get_or_insert(action, || Tally::new(7)).get())
            };
            for (found, tally) in map.iter() {
                assert_eq!((found, tally.get()), (action, 7));
            }
            assert_eq!(writer.join().expect("writer"), 7);
            assert_eq!(map.iter().count(), 1);
        });
    }
}
