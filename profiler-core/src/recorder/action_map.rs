//! A table from actions to records that one thread fills while any thread reads.

use std::ptr;

use crate::action::Action;
use crate::sync::{AtomicPtr, Ordering};

/// Actions up to this index are found by one load.
#[cfg(not(loom))]
const NEAR: usize = 256;
#[cfg(loom)]
const NEAR: usize = 1;
/// Chunk `i` holds `NEAR << i` of the others: entries never move, and an action costs no more than
/// two loads to find.
#[cfg(not(loom))]
const CHUNKS: usize = 25;
#[cfg(loom)]
const CHUNKS: usize = 6;

/// *Invariant*: only the owning thread inserts. Chunks and records are published with `Release`
/// after they are complete, never replaced, and freed only with the map.
pub(crate) struct ActionMap<R> {
    near: [AtomicPtr<R>; NEAR],
    far: [AtomicPtr<AtomicPtr<R>>; CHUNKS],
}

// SAFETY: the map owns its records and hands out shared references only.
unsafe impl<R: Send + Sync> Send for ActionMap<R> {}
// SAFETY: as above; that only one thread inserts is the duty of the caller (see `get_or_insert`).
unsafe impl<R: Send + Sync> Sync for ActionMap<R> {}

impl<R> ActionMap<R> {
    pub(crate) fn new() -> Self {
        Self {
            near: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
            far: std::array::from_fn(|_| AtomicPtr::new(ptr::null_mut())),
        }
    }

    /// The record of `action`, if it has one and is among the first actions of the process. Only
    /// the owning thread may call this.
    #[inline(always)]
    pub(crate) fn get_near(&self, action: Action) -> Option<&R> {
        let record = self.near.get(action.index())?.load(Ordering::Relaxed);
        // SAFETY: records live as long as the map.
        unsafe { record.as_ref() }
    }

    /// The record of `action`, made on its first use. Only the owning thread may call this.
    pub(crate) fn get_or_insert(&self, action: Action, make: impl FnOnce() -> R) -> &R {
        let entry = match self.near.get(action.index()) {
            Some(entry) => entry,
            None => self.far_entry(action.index()),
        };
        let mut record = entry.load(Ordering::Relaxed);
        if record.is_null() {
            record = Box::into_raw(Box::new(make()));
            entry.store(record, Ordering::Release);
        }
        // SAFETY: records live as long as the map.
        unsafe { &*record }
    }

    fn far_entry(&self, index: usize) -> &AtomicPtr<R> {
        let (chunk, offset) = far_position(index);
        let mut entries = self.far[chunk].load(Ordering::Relaxed);
        if entries.is_null() {
            let new: Box<[AtomicPtr<R>]> =
                (0..NEAR << chunk).map(|_| AtomicPtr::new(ptr::null_mut())).collect();
            entries = Box::into_raw(new).cast();
            self.far[chunk].store(entries, Ordering::Release);
        }
        // SAFETY: a chunk has `NEAR << chunk` entries, `far_position` keeps the offset below that,
        // and chunks are freed only with the map.
        unsafe { &*entries.add(offset) }
    }

    /// The entries of a chunk that has been made.
    fn chunk(&self, chunk: usize) -> &[AtomicPtr<R>] {
        let entries = self.far[chunk].load(Ordering::Acquire);
        if entries.is_null() {
            return &[];
        }
        // SAFETY: made by `far_entry` with this length, published after that, and freed only with
        // the map.
        unsafe { std::slice::from_raw_parts(entries, NEAR << chunk) }
    }

    fn entries(&self) -> impl Iterator<Item = (usize, &AtomicPtr<R>)> {
        let far = (0..CHUNKS).flat_map(|chunk| {
            let entries = self.chunk(chunk).iter().enumerate();
            entries.map(move |(offset, entry)| ((NEAR << chunk) + offset, entry))
        });
        self.near.iter().enumerate().chain(far)
    }

    /// All records with their actions. Any thread may call this.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Action, &R)> {
        self.entries().filter_map(|(index, entry)| {
            let record = entry.load(Ordering::Acquire);
            // SAFETY: published after it was made; lives as long as the map.
            let record = unsafe { record.as_ref() }?;
            Some((Action::from_index(index)?, record))
        })
    }
}

/// Chunk and offset of an index that is not near.
fn far_position(index: usize) -> (usize, usize) {
    let chunk = (index / NEAR).ilog2() as usize;
    (chunk, index - (NEAR << chunk))
}

impl<R> Drop for ActionMap<R> {
    fn drop(&mut self) {
        for (_, entry) in self.entries() {
            let record = entry.load(Ordering::Relaxed);
            if !record.is_null() {
                // SAFETY: made by `Box::into_raw` in `get_or_insert`, stored in one place only, and
                // nobody else holds the map any more.
                drop(unsafe { Box::from_raw(record) });
            }
        }
        for (chunk, entries) in self.far.iter().enumerate() {
            let entries = entries.load(Ordering::Relaxed);
            if !entries.is_null() {
                let slice = ptr::slice_from_raw_parts_mut(entries, NEAR << chunk);
                // SAFETY: made by `Box::into_raw` from a boxed slice of this length in `far_entry`.
                drop(unsafe { Box::from_raw(slice) });
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
        for index in NEAR..NEAR * 100 {
            assert_eq!(far_position(index), next, "index {index}");
            next.1 += 1;
            if next.1 == NEAR << next.0 {
                next = (next.0 + 1, 0);
            }
        }
        assert!(far_position(u32::MAX as usize).0 < CHUNKS);
    }

    #[test]
    fn records_are_found_again_and_listed_with_their_actions() {
        let map = ActionMap::new();
        let actions: Vec<Action> =
            (0..1500).map(|number| Action::new(&format!("map-{number}"))).collect();
        for (number, action) in actions.iter().enumerate() {
            assert_eq!(*map.get_or_insert(*action, || number), number);
        }
        for (number, action) in actions.iter().enumerate() {
            assert_eq!(*map.get_or_insert(*action, || unreachable!("is there")), number);
        }
        let listed: Vec<(Action, usize)> = map.iter().map(|(action, n)| (action, *n)).collect();
        assert_eq!(listed.len(), 1500);
        assert!(listed.iter().all(|(action, number)| actions[*number] == *action));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// A reader finds a record either not at all or complete. The record is a plain cell, whose
    /// reading loom allows only after its writing.
    #[test]
    fn records_are_published_complete() {
        struct Record(UnsafeCell<u64>);
        // SAFETY: loom itself checks that no thread reads while another writes.
        unsafe impl Sync for Record {}
        let (near, far) = (Action::new("loom-map"), Action::new("loom-map-far"));
        assert!(far.index() >= NEAR);
        let orders = Arc::new(AtomicUsize::new(0));
        let counted = orders.clone();
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let map: Arc<ActionMap<Record>> = Arc::new(ActionMap::new());
            // The reader is spawned, not the writer: see the tests of the stack.
            let reader = {
                let map = map.clone();
                thread::spawn(move || {
                    for (_, record) in map.iter() {
                        // SAFETY: as above.
                        record.0.with(|value| assert_eq!(unsafe { *value }, 7));
                    }
                })
            };
            for action in [near, far] {
                map.get_or_insert(action, || Record(UnsafeCell::new(7)));
            }
            reader.join().expect("reader");
            assert_eq!(map.iter().count(), 2);
        });
        let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
        assert!(orders > 3, "{orders} orders");
    }
}
