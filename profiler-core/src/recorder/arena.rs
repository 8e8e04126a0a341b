//! Append-only list with one writer and any number of readers. Entries never move.

use std::mem::MaybeUninit;
use std::ptr::{self, NonNull};

use mlprof_events::sync::{AtomicPtr, Ordering, Tally};

/// Entry capacities of the first and the largest chunk. Small first chunks save memory on threads
/// that record little.
const FIRST: usize = 4;
const LARGEST: usize = 64;

/// Append-only list of chunks, written by one thread.
///
/// *Invariant*: only the owning thread adds entries. It writes an entry before it publishes the new
/// `used` count. It completes a chunk before it stores the pointer to it in `next` or `first`.
/// Entries and chunks are freed only when the list is dropped.
pub(crate) struct Arena<T> {
    first: AtomicPtr<Chunk<T>>,
    /// Chunk that is being filled. Only the owning thread uses this pointer.
    last: AtomicPtr<Chunk<T>>,
    length: Tally,
}

struct Chunk<T> {
    next: AtomicPtr<Self>,
    used: Tally,
    capacity: usize,
    entries: NonNull<T>,
}

// SAFETY: the list owns its entries and returns only shared references, so `T: Send + Sync` is
// enough.
unsafe impl<T: Send + Sync> Send for Arena<T> {}
// SAFETY: readers get only shared references to entries that are already published. Callers of
// `add` must guarantee that only one thread adds.
unsafe impl<T: Send + Sync> Sync for Arena<T> {}

impl<T> Arena<T> {
    pub(crate) fn new() -> Self {
        let nothing = || AtomicPtr::new(ptr::null_mut());
        Self { first: nothing(), last: nothing(), length: Tally::new(0) }
    }

    /// Returns the number of entries. Only the owning thread may call this.
    pub(crate) fn len(&self) -> usize {
        self.length.get() as usize
    }

    /// Adds an entry and returns a reference to it. Only the owning thread may call this.
    pub(crate) fn add(&self, entry: T) -> &T {
        // SAFETY: the pointer is null or points to a chunk, and chunks live as long as the list.
        let last = unsafe { self.last.load(Ordering::Relaxed).as_ref() };
        let chunk = match last.filter(|chunk| (chunk.used.get() as usize) < chunk.capacity) {
            Some(chunk) => chunk,
            None => self.add_chunk(last),
        };
        let used = chunk.used.get() as usize;
        // SAFETY: `used` is below the capacity, so the place is inside the chunk's allocation.
        let place = unsafe { chunk.entries.add(used) };
        // SAFETY: the place is inside the allocation and aligned. Readers cannot see it yet,
        // because `used` does not count it.
        unsafe { place.write(entry) };
        chunk.used.publish(used as u64 + 1);
        self.length.set(self.length.get() + 1);
        // SAFETY: the entry was just written, is not written again, and lives as long as the list.
        unsafe { place.as_ref() }
    }

    fn add_chunk(&self, last: Option<&Chunk<T>>) -> &Chunk<T> {
        let capacity = last.map_or(FIRST, |last| (2 * last.capacity).min(LARGEST));
        let entries: Box<[MaybeUninit<T>]> = Box::new_uninit_slice(capacity);
        let entries = NonNull::from(Box::leak(entries)).cast();
        let next = AtomicPtr::new(ptr::null_mut());
        let chunk = Box::leak(Box::new(Chunk { next, used: Tally::new(0), capacity, entries }));
        let chunk: *mut Chunk<T> = chunk;
        last.map_or(&self.first, |last| &last.next).store(chunk, Ordering::Release);
        self.last.store(chunk, Ordering::Relaxed);
        // SAFETY: the pointer comes from the box leaked here, and the chunk lives as long as the
        // list.
        unsafe { &*chunk }
    }

    /// Returns the entries in the order in which they were added. Any thread may call this.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &T> {
        self.chunks().flatten()
    }

    /// Returns the entry at this index, in order of addition. Any thread may call this. *Cost*: one
    /// step for each earlier chunk of up to 64 entries.
    pub(crate) fn get(&self, mut index: usize) -> Option<&T> {
        self.chunks().find_map(|entries| {
            let entry = entries.get(index);
            index = index.saturating_sub(entries.len());
            entry
        })
    }

    fn chunks(&self) -> impl Iterator<Item = &[T]> {
        let at = |pointer: &AtomicPtr<Chunk<T>>| {
            // SAFETY: the pointer is null or points to a chunk. Chunks are complete before they are
            // linked, which the acquire load makes visible, and they live as long as the list.
            unsafe { pointer.load(Ordering::Acquire).as_ref() }
        };
        std::iter::successors(at(&self.first), move |chunk| at(&chunk.next)).map(|chunk| {
            let used = chunk.used.get_published() as usize;
            // SAFETY: the first `used` entries were written before `used` was published, and they
            // are never written again.
            unsafe { std::slice::from_raw_parts(chunk.entries.as_ptr(), used) }
        })
    }
}

impl<T> Drop for Arena<T> {
    fn drop(&mut self) {
        let mut chunk = self.first.load(Ordering::Relaxed);
        while !chunk.is_null() {
            // SAFETY: `add_chunk` made the chunk from a box and linked it once. `&mut self` rules
            // out other users.
            let Chunk { next, used, capacity, entries } = *unsafe { Box::from_raw(chunk) };
            let written = ptr::slice_from_raw_parts_mut(entries.as_ptr(), used.get() as usize);
            // SAFETY: the first `used` entries are initialised, and each is dropped only here.
            unsafe { ptr::drop_in_place(written) };
            let all = ptr::slice_from_raw_parts_mut(entries.cast().as_ptr(), capacity);
            // SAFETY: `add_chunk` leaked a box of this type and length.
            drop(unsafe { Box::<[MaybeUninit<T>]>::from_raw(all) });
            chunk = next.load(Ordering::Relaxed);
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn entries_stay_where_they_are_and_are_dropped_once() {
        let shared = Arc::new(());
        let list = Arena::new();
        let first: *const (usize, Arc<()>) = list.add((0, shared.clone()));
        for number in 1..200 {
            assert_eq!(list.add((number, shared.clone())).0, number);
        }
        assert_eq!(list.len(), 200);
        assert!(list.iter().map(|entry| entry.0).eq(0..200));
        assert!((0..200).all(|index| list.get(index).is_some_and(|entry| entry.0 == index)));
        assert!(list.get(200).is_none());
        assert!(ptr::eq(first, list.iter().next().expect("the first")));
        assert_eq!(Arc::strong_count(&shared), 201);
        drop(list);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn a_reader_beside_the_writer_sees_a_beginning_of_the_list() {
        const COUNT: usize = if cfg!(miri) { 80 } else { 300 };
        let list = Arena::new();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen = 0;
                while seen < COUNT {
                    let entries: Vec<usize> = list.iter().copied().collect();
                    assert!(entries.iter().copied().eq(0..entries.len()) && entries.len() >= seen);
                    seen = entries.len();
                    std::thread::yield_now();
                }
            });
            for number in 0..COUNT {
                list.add(number);
            }
            reader.join().expect("no panic");
        });
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use std::sync::Arc;
    use std::sync::atomic::AtomicUsize;

    use super::*;
    use loom::cell::UnsafeCell;
    use loom::thread;

    /// Checks that a reader finds an entry either not at all or complete. The entry is a plain
    /// cell, and loom reports a read that is not ordered after the write.
    #[test]
    fn entries_are_published_complete() {
        struct Entry(UnsafeCell<u64>);
        // SAFETY: loom itself checks that no thread reads while another writes.
        unsafe impl Sync for Entry {}
        let orders = Arc::new(AtomicUsize::new(0));
        let counted = orders.clone();
        loom::model(move || {
            counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
            let list: Arc<Arena<Entry>> = Arc::new(Arena::new());
            // The reader is the spawned thread, for the reason given in the loom tests of the
            // stack.
            let reader = {
                let list = list.clone();
                thread::spawn(move || {
                    for entry in list.iter() {
                        // SAFETY: loom checks that no write is concurrent with this read.
                        entry.0.with(|value| assert_eq!(unsafe { *value }, 7));
                    }
                })
            };
            for _ in 0..2 {
                list.add(Entry(UnsafeCell::new(7)));
            }
            reader.join().expect("reader");
            assert_eq!(list.iter().count(), 2);
        });
        let orders = orders.load(std::sync::atomic::Ordering::Relaxed);
        assert!(orders > 3, "{orders} orders");
    }
}
