//! Memory mapped directly from the system instead of the program's allocator. A scope may need
//! memory in a signal handler that has interrupted the allocator.

use std::alloc::Layout;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use self::system::{map, unmap};
use mlprof_events::sync::{AtomicPtr, Ordering, Tally};

/// A value in its own memory pages.
///
/// *Invariant*: `place` is mapped with the layout of `T`, holds an initialised value, and is owned
/// only by this object.
pub(super) struct Mapped<T> {
    place: NonNull<T>,
}

// SAFETY: `Mapped` owns its value exclusively, like a box.
unsafe impl<T: Send> Send for Mapped<T> {}
// SAFETY: `&Mapped<T>` gives access only to a `&T`, like a box.
unsafe impl<T: Sync> Sync for Mapped<T> {}

impl<T> Mapped<T> {
    /// Maps memory and lets `write` initialise the value in place. The value never lies on the
    /// stack, because a signal handler's stack may be small. Returns `None` if the system has no
    /// memory.
    ///
    /// # Safety
    ///
    /// `write` must initialise the value before it returns.
    pub(super) unsafe fn written_by(write: impl FnOnce(NonNull<T>)) -> Option<Self> {
        let place = map(Layout::new::<T>())?.cast();
        write(place);
        Some(Self { place })
    }

    /// Returns the address of the value, which is valid for reads until this object is dropped.
    pub(super) fn place(&self) -> NonNull<T> {
        self.place
    }
}

impl<T> Drop for Mapped<T> {
    fn drop(&mut self) {
        // SAFETY: by the invariant, the place holds an initialised value. `&mut self` rules out
        // other users.
        unsafe { self.place.drop_in_place() };
        // SAFETY: `written_by` mapped the place with this layout, and the value was just dropped.
        unsafe { unmap(self.place.cast(), Layout::new::<T>()) };
    }
}

/// Size of a chunk in bytes, including the link to the previous chunk.
#[cfg(not(miri))]
const CHUNK_BYTES: usize = 16 << 10;
#[cfg(miri)]
const CHUNK_BYTES: usize = 4 << 10;

/// Append-only list of entries in mapped memory, added by one thread. Entries stay in place until
/// the arena is dropped. The arena offers no lookup; the adding thread must publish references to
/// the entries itself.
///
/// *Invariant*: only the owning thread adds entries. `last` points to the chunk that is being
/// filled, and its first `used` entries are initialised. Each chunk links to the previous one,
/// which is full.
///
/// *Memory*: none before the first entry, then chunks of 16 kB. The system backs only the pages
/// that are used.
pub(crate) struct MappedArena<T> {
    last: AtomicPtr<Chunk<T>>,
    used: Tally,
}

#[repr(C)]
struct Chunk<T> {
    before: *mut Self,
    /// First of [`CAPACITY`](MappedArena::CAPACITY) entries.
    entries: [T; 0],
}

// SAFETY: the arena owns its entries and returns only shared references, so `T: Send + Sync` is
// enough.
unsafe impl<T: Send + Sync> Send for MappedArena<T> {}
// SAFETY: other threads get only shared references to entries. Callers of `add` must guarantee that
// only one thread adds.
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

    /// Adds an entry and returns a reference to it, or `None` if the system has no memory. Only the
    /// owning thread may call this.
    pub(crate) fn add(&self, entry: T) -> Option<&T> {
        let mut chunk = self.last.load(Ordering::Relaxed);
        let mut used = self.used.get() as usize;
        if chunk.is_null() || used == Self::CAPACITY {
            (chunk, used) = (Self::new_chunk(chunk)?, 0);
            self.last.store(chunk, Ordering::Relaxed);
        }
        // SAFETY: `used` is below `CAPACITY`, so the place is inside the chunk's mapping.
        let place = unsafe { Self::entries(chunk).add(used) };
        // SAFETY: the place is inside the mapping, aligned, and holds no entry yet.
        unsafe { place.write(entry) };
        self.used.set(used as u64 + 1);
        // SAFETY: the entry was just written, is not written again, and lives as long as the arena.
        Some(unsafe { &*place })
    }

    fn new_chunk(before: *mut Chunk<T>) -> Option<*mut Chunk<T>> {
        let chunk = map(Self::LAYOUT)?.cast::<Chunk<T>>().as_ptr();
        // SAFETY: the new mapping has the size and alignment of a chunk and no other user. The
        // field is written through a raw pointer, because the mapping is larger than a `Chunk`
        // value.
        unsafe { (&raw mut (*chunk).before).write(before) };
        Some(chunk)
    }

    /// Returns a pointer to the first entry of a chunk. Its provenance covers all entries of the
    /// chunk.
    ///
    /// # Safety
    ///
    /// `chunk` must point to a chunk of an arena.
    unsafe fn entries(chunk: *mut Chunk<T>) -> *mut T {
        // SAFETY: the caller guarantees that `chunk` points to a mapped chunk.
        unsafe { (&raw mut (*chunk).entries).cast() }
    }
}

impl<T> Drop for MappedArena<T> {
    fn drop(&mut self) {
        let mut chunk = self.last.load(Ordering::Relaxed);
        let mut used = self.used.get() as usize;
        while let Some(place) = NonNull::new(chunk) {
            // SAFETY: the chunk belongs to this arena and was linked once. `&mut self` rules out
            // other users.
            let (before, entries) = unsafe { ((*chunk).before, Self::entries(chunk)) };
            // SAFETY: the first `used` entries are initialised, and each is dropped only here.
            unsafe { ptr::slice_from_raw_parts_mut(entries, used).drop_in_place() };
            // SAFETY: `new_chunk` mapped the place with this layout. Its entries were dropped, and
            // no reference to it is left.
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

    /// Minimum alignment of memory pages in bytes.
    const PAGE: usize = 4096;

    /// Maps new memory. Returns `None` if the system has none, for example because of an
    /// address-space limit. A signal handler may call this.
    pub(super) fn map(layout: Layout) -> Option<NonNull<u8>> {
        debug_assert!(layout.align() <= PAGE && layout.size() > 0);
        #[cfg(test)]
        if super::shortage::is_on() {
            return None;
        }
        let (access, kind) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: an anonymous private mapping without a fixed address cannot overlap existing
        // memory.
        let pages = keeping_errno(|| unsafe {
            libc::mmap(ptr::null_mut(), layout.size(), access, kind, -1, 0)
        });
        NonNull::new(pages).filter(|_| pages != libc::MAP_FAILED).map(NonNull::cast)
    }

    /// Unmaps memory.
    ///
    /// # Safety
    ///
    /// `place` must come from [`map`] with this layout, and the memory must have no other user.
    pub(super) unsafe fn unmap(place: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that the memory comes from `map` with this layout and is
        // unused. The whole mapping is unmapped.
        keeping_errno(|| unsafe { libc::munmap(place.as_ptr().cast(), layout.size()) });
    }
}

/// Other platforms have no signal handlers that interrupt the program's allocator, so the allocator
/// provides the memory.
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
        // SAFETY: the layout's size is not zero, because only chunks and values that are not
        // zero-sized are mapped.
        NonNull::new(unsafe { alloc(layout) })
    }

    /// # Safety
    ///
    /// `place` must come from [`map`] with this layout, and the memory must have no other user.
    pub(super) unsafe fn unmap(place: NonNull<u8>, layout: Layout) {
        // SAFETY: the caller guarantees that `place` comes from `map` with this layout and is
        // unused.
        unsafe { dealloc(place.as_ptr(), layout) };
    }
}

/// Simulates a lack of memory for the calling thread, in tests.
#[cfg(test)]
pub(crate) mod shortage {
    use std::cell::Cell;

    thread_local!(static IS_ON: Cell<bool> = const { Cell::new(false) });

    pub(super) fn is_on() -> bool {
        IS_ON.get()
    }

    /// Runs `work` while the system refuses memory to this thread.
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
            // SAFETY: the place is new and has the size and alignment of the value.
            unsafe { place.write(Aligned(shared.clone())) };
        };
        // SAFETY: `write` initialises the value.
        let mapped = unsafe { Mapped::written_by(write) }.expect("memory");
        assert!(mapped.place().is_aligned());
        // SAFETY: the value is initialised, and `mapped` keeps it alive.
        assert_eq!(Arc::strong_count(&unsafe { mapped.place().as_ref() }.0), 2);
        drop(mapped);
        assert_eq!(Arc::strong_count(&shared), 1);
    }

    #[test]
    fn failed_allocations_add_nothing_and_can_be_retried() {
        let (shared, arena) = (Arc::new(()), MappedArena::default());
        shortage::during(|| assert!(arena.add(shared.clone()).is_none()));
        assert_eq!(Arc::strong_count(&shared), 1);
        assert!(arena.add(shared.clone()).is_some());
        drop(arena);
        assert_eq!(Arc::strong_count(&shared), 1);
    }
}
