//! Memory that comes from the system itself and not from the program's allocator, for what a scope may
//! need after its first time: it may be in a signal handler that has interrupted the allocator.

use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use self::system::{map, unmap};
use mlprof_events::sync::{AtomicPtr, Ordering, Tally};

/// A value in pages of its own.
///
/// *Invariant*: `place` is mapped with the layout of `T`, holds a value, and is nobody else's.
pub(super) struct Mapped<T> {
    place: NonNull<T>,
}

// SAFETY: owns its value, as a box does.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: as above.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// A value that `write` writes where it is to be: it never lies on the stack, which may be a signal
    /// handler's and small. `None` if the system has no memory for it.
    ///
    /// # Safety
    ///
    /// Once `write` has returned there is a value.
    pub(super) unsafe fn written_by(write: impl FnOnce(NonNull<T>)) -> Option<Self> {
        let place = map(Layout::new::<T>())?.cast();
        write(place);
        Some(Self { place })
    }

    /// Where the value is: good for reading, until this is dropped.
    pub(super) fn place(&self) -> NonNull<T> {
        self.place
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: by the invariant; nothing uses the value any more.
        unsafe { self.place.drop_in_place() };
        // SAFETY: mapped with this layout in `written_by`.
        unsafe { unmap(self.place.cast(), Layout::new::<T>()) };
    }
}

/// What the entries of a chunk and what leads to the chunk before it take.
#[cfg(not(miri))]
const CHUNK_BYTES: usize = 16 << 10;
#[cfg(miri)]
const CHUNK_BYTES: usize = 4 << 10;

/// Entries that one thread adds, each of which stays where it is until all are dropped. What leads to
/// an entry, so that others read it, is the adding thread's matter.
///
/// *Invariant*: only the owning thread adds. `last` leads to the chunk that is filled, of whose places
/// `used` are, and each chunk to the one before it, which is full.
///
/// *Memory*: nothing before the first entry, then chunks of 16 kB, of which the system fills those pages
/// that are used.
pub(crate) struct MappedArena<T> {
    last: AtomicPtr<Chunk<T>>,
    used: Tally,
}

#[repr(C)]
struct Chunk<T> {
    before: *mut Self,
    /// The first of [`CAPACITY`](MappedArena::CAPACITY).
    entries: [T; 0],
}

// SAFETY: the arena owns its entries and hands out shared references only.
unsafe impl<T: Send + Sync> Send for MappedArena<T> {}
// SAFETY: as above; that only one thread adds is the duty of the caller (see `add`).
unsafe impl<T: Send + Sync> Sync for MappedArena<T> {}

impl<T> Default for MappedArena<T> {
    fn default() -> Self {
        Self { last: AtomicPtr::new(ptr::null_mut()), used: Tally::new(0) }
    }
}

impl<T> MappedArena<T> {
    const CAPACITY: usize = {
        let capacity = (CHUNK_BYTES - offset_of!(Chunk<T>, entries)) / size_of::<T>();
        assert!(capacity > 0);
        capacity
    };

    const LAYOUT: Layout = match Layout::from_size_align(CHUNK_BYTES, align_of::<Chunk<T>>()) {
        Ok(layout) => layout,
        Err(_) => panic!("a chunk has a size and an alignment"),
    };

    /// Adds an entry; `None` if the system has no memory for it. Only the owning thread may call
    /// this.
    pub(crate) fn add(&self, entry: T) -> Option<&T> {
        let mut chunk = self.last.load(Ordering::Relaxed);
        let mut used = self.used.get() as usize;
        if chunk.is_null() || used == Self::CAPACITY {
            (chunk, used) = (Self::new_chunk(chunk)?, 0);
            self.last.store(chunk, Ordering::Relaxed);
        }
        // SAFETY: the chunk has a place for this entry, which has none yet.
        let place = unsafe { Self::entries(chunk).add(used) };
        // SAFETY: as above.
        unsafe { place.write(entry) };
        self.used.set(used as u64 + 1);
        // SAFETY: just written; lives as long as the arena.
        Some(unsafe { &*place })
    }

    fn new_chunk(before: *mut Chunk<T>) -> Option<*mut Chunk<T>> {
        let chunk = map(Self::LAYOUT)?.cast::<Chunk<T>>().as_ptr();
        // SAFETY: as large and as aligned as a chunk, and new. By its field, as all of it is more than
        // what a `Chunk` is said to be.
        unsafe { (&raw mut (*chunk).before).write(before) };
        Some(chunk)
    }

    /// The first entry of a chunk, good for all of them.
    ///
    /// # Safety
    ///
    /// The chunk must be one of an arena's.
    unsafe fn entries(chunk: *mut Chunk<T>) -> *mut T {
        // SAFETY: as the caller promises.
        unsafe { (&raw mut (*chunk).entries).cast() }
    }
}

impl<T> Drop for MappedArena<T> {
    fn drop(&mut self) {
        let mut chunk = self.last.load(Ordering::Relaxed);
        let mut used = self.used.get() as usize;
        while let Some(place) = NonNull::new(chunk) {
            // SAFETY: a chunk of this arena, linked once, and nobody else holds the arena any more.
            let (before, entries) = unsafe { ((*chunk).before, Self::entries(chunk)) };
            // SAFETY: so many entries were written, and each is dropped once.
            unsafe { ptr::slice_from_raw_parts_mut(entries, used).drop_in_place() };
            // SAFETY: mapped with this layout in `new_chunk`, and left by all.
            unsafe { unmap(place.cast(), Self::LAYOUT) };
            (chunk, used) = (before, Self::CAPACITY);
        }
    }
}

#[cfg(unix)]
mod system {
    use std::alloc::Layout;
    use std::ptr::{self, NonNull};

    use mlprof_events::errno::keeping_errno;

    /// The least that pages are aligned to.
    const PAGE: usize = 4096;

    /// New memory; `None` if the system has none, as under a limit of the address space. May be
    /// called in a signal handler.
    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        debug_assert!(layout.align() <= PAGE && layout.size() > 0);
        #[cfg(test)]
        if super::shortage::is_on() {
            return None;
        }
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: asks for pages that are nobody's.
        let pages = keeping_errno(|| unsafe {
            libc::mmap(ptr::null_mut(), layout.size(), access, kind, -1, 0)
        });
        NonNull::new(pages).filter(|_| pages != libc::MAP_FAILED).map(NonNull::cast)
    }

    /// Gives memory back.
    ///
    /// # Safety
    ///
    /// It comes from [`map`] with this layout, and nobody uses it any more.
    pub(super) unsafe fn unmap(place: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises. Pages that are mapped whole can be given back.
        keeping_errno(|| unsafe { libc::munmap(place.as_ptr().cast(), layout.size()) });
    }
}

/// Elsewhere there are no signal handlers that interrupt the program's allocator: it is what is used.
#[cfg(not(unix))]
mod system {
    use std::alloc::{Layout, alloc, dealloc};
    use std::ptr::NonNull;

    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        debug_assert!(layout.size() > 0);
        #[cfg(test)]
        if super::shortage::is_on() {
            return None;
        }
        // SAFETY: what is mapped are chunks and values that are not empty.
        NonNull::new(unsafe { alloc(layout) })
    }

    /// # Safety
    ///
    /// It comes from [`map`] with this layout, and nobody uses it any more.
    pub(super) unsafe fn unmap(place: NonNull<u8>, layout: Layout) {
        // SAFETY: as the caller promises.
        unsafe { dealloc(place.as_ptr(), layout) };
    }
}

/// For tests: has the system refuse the calling thread memory.
#[cfg(test)]
pub(crate) mod shortage {
    use std::cell::Cell;

    thread_local!(static IS_ON: Cell<bool> = const { Cell::new(false) });

    pub(super) fn is_on() -> bool {
        IS_ON.get()
    }

    /// During `work`.
    pub(crate) fn during<T>(work: impl FnOnce() -> T) -> T {
        IS_ON.set(true);
        let result = work();
        IS_ON.set(false);
        result
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn entries_stay_where_they_are_and_are_dropped_once() {
        let (shared, arena) = (Arc::new(()), MappedArena::default());
        let count = 3 * MappedArena::<(usize, Arc<()>)>::CAPACITY + 1;
        let entries: Vec<_> = (0..count).filter_map(|n| arena.add((n, shared.clone()))).collect();
        assert_eq!(entries.len(), count);
        assert!(entries.iter().enumerate().all(|(n, entry)| entry.0 == n));
        assert_eq!(Arc::strong_count(&shared), 1 + count);
        drop(arena);
        assert_eq!(Arc::strong_count(&shared), 1);
        drop(MappedArena::<Arc<()>>::default());
    }

    #[test]
    fn a_mapped_value_is_aligned_and_dropped_once() {
        #[repr(align(128))]
        struct Aligned(Arc<()>);
        let shared = Arc::new(());
        let write = |place: NonNull<Aligned>| {
            // SAFETY: as large and as aligned as the value, and new.
            unsafe { place.write(Aligned(shared.clone())) };
        };
        // SAFETY: it is written.
        let mapped = unsafe { Mapped::written_by(write) }.expect("memory");
        assert!(mapped.place().is_aligned());
        // SAFETY: the value is there.
        assert_eq!(Arc::strong_count(&unsafe { mapped.place().as_ref() }.0), 2);
        drop(mapped);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn what_there_is_no_memory_for_is_not_added_and_may_be_added_later() {
        let (shared, arena) = (Arc::new(()), MappedArena::default());
        shortage::during(|| assert!(arena.add(shared.clone()).is_none()));
        assert_eq!(Arc::strong_count(&shared), 1);
        assert!(arena.add(shared.clone()).is_some());
        drop(arena);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
