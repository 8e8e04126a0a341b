//! Buffers for CUPTI's records. CUPTI receives them empty and returns them full, a reader thread
//! reads them, and then they are reused.
//!
//! CUPTI requests and returns buffers on the program's own threads and on flushing threads, while
//! it holds its own locks. For this reason the lock here is held for a few instructions only.
//! Memory is allocated outside the lock, and no CUPTI function is called under it.

use std::alloc::{Layout, alloc, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use mlprof_events::sync::{Condvar, CondvarMutex as Mutex, CondvarMutexGuard as MutexGuard};

/// Size of a buffer in bytes, which is enough for about 20,000 kernels.
#[cfg(not(loom))]
pub(super) const SIZE: usize = 4 << 20;
#[cfg(loom)]
pub(super) const SIZE: usize = 8;

/// Maximum number of buffers, which together have 256 MiB. If all are full, CUPTI drops records and
/// counts them.
#[cfg(not(loom))]
const MOST: usize = 64;
#[cfg(loom)]
const MOST: usize = 1;

/// Memory layout of a buffer, with the alignment that CUPTI requires.
const LAYOUT: Layout = match Layout::from_size_align(SIZE, 8) {
    Ok(layout) => layout,
    Err(_) => panic!("a size that is no multiple of 8"),
};

/// Owned memory of [`SIZE`] bytes.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Buffer(NonNull<u8>);

// SAFETY: a `Buffer` is the only owner of its heap memory, so it may move to another thread.
unsafe impl Send for Buffer {}

impl Buffer {
    fn new() -> Option<Self> {
        // SAFETY: `LAYOUT` has a size greater than 0, as `alloc` requires.
        NonNull::new(unsafe { alloc(LAYOUT) }).map(Self)
    }

    /// Passes ownership of the memory to CUPTI. The pointer must be returned to
    /// [`from_raw`](Self::from_raw).
    pub(super) fn into_raw(self) -> *mut u8 {
        let pointer = self.0.as_ptr();
        std::mem::forget(self);
        pointer
    }

    /// # Safety
    ///
    /// `pointer` must be null or a result of [`into_raw`](Self::into_raw). Each result may be
    /// passed only once.
    pub(super) unsafe fn from_raw(pointer: *mut u8) -> Option<Self> {
        NonNull::new(pointer).map(Self)
    }

    /// Returns the start address.
    pub(super) fn start(&self) -> *mut u8 {
        self.0.as_ptr()
    }
}

impl Drop for Buffer {
    fn drop(&mut self) {
        // SAFETY: `new` allocated this memory with `LAYOUT`. `into_raw` forgets the value and
        // `from_raw` accepts each pointer only once, so this value is the only owner.
        unsafe { dealloc(self.0.as_ptr(), LAYOUT) };
    }
}

/// Pool of all buffers of the process.
pub(super) struct Buffers {
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    empty: Vec<Buffer>,
    /// Full buffers with the number of bytes filled.
    full: VecDeque<(Buffer, usize)>,
    /// Number of existing buffers, including those that CUPTI has.
    count: usize,
    /// Number of buffers that are being read.
    reading: usize,
    /// Number of requests that could not be served.
    refused: u64,
}

impl Buffers {
    pub(super) fn new() -> Self {
        // The capacity is reserved now, so that no memory is allocated under the lock.
        let state = State {
            empty: Vec::with_capacity(MOST),
            full: VecDeque::with_capacity(MOST),
            count: 0,
            reading: 0,
            refused: 0,
        };
        Self { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns an empty buffer. `None` if all buffers are in use or memory is exhausted.
    pub(super) fn request(&self) -> Option<Buffer> {
        {
            let mut state = self.lock();
            if let Some(buffer) = state.empty.pop() {
                return Some(buffer);
            }
            if state.count >= MOST {
                state.refused += 1;
                return None;
            }
            state.count += 1;
        }
        let buffer = Buffer::new();
        if buffer.is_none() {
            let mut state = self.lock();
            state.count -= 1;
            state.refused += 1;
        }
        buffer
    }

    /// Takes back a buffer from CUPTI in which `filled` bytes contain records.
    pub(super) fn complete(&self, buffer: Buffer, filled: usize) {
        let mut state = self.lock();
        match filled {
            0 => state.empty.push(buffer),
            filled => state.full.push_back((buffer, filled.min(SIZE))),
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits for a full buffer. The caller must [give it back](Self::give_back) after reading it.
    pub(super) fn take(&self) -> (Buffer, usize) {
        let mut state = self.lock();
        loop {
            if let Some(full) = state.full.pop_front() {
                state.reading += 1;
                return full;
            }
            state = self.changed.wait(state).unwrap_or_else(std::sync::PoisonError::into_inner);
        }
    }

    /// Takes back a buffer that has been read.
    pub(super) fn give_back(&self, buffer: Buffer) {
        let mut state = self.lock();
        state.reading -= 1;
        state.empty.push(buffer);
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until all full buffers have been read. Returns `false` if this takes longer than
    /// `patience`.
    pub(super) fn wait_until_read(&self, patience: Duration) -> bool {
        let deadline = Instant::now() + patience;
        let mut state = self.lock();
        while !state.full.is_empty() || state.reading > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            let waited = self.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
        }
        true
    }

    /// Returns the number of requests without a buffer since the last call.
    pub(super) fn take_refused(&self) -> u64 {
        std::mem::take(&mut self.lock().refused)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn buffers_are_used_again_and_there_are_only_so_many() {
        let buffers = Buffers::new();
        let given: Vec<Buffer> = std::iter::from_fn(|| buffers.request()).collect();
        assert_eq!((given.len(), buffers.take_refused()), (MOST, 1));
        assert!(given.iter().all(|buffer| buffer.start().addr() % 8 == 0));
        let addresses: Vec<_> = given.iter().map(Buffer::start).collect();
        for (number, buffer) in given.into_iter().enumerate() {
            buffers.complete(buffer, if number == 0 { 0 } else { 8 });
        }
        for _ in 1..MOST {
            let (buffer, filled) = buffers.take();
            assert_eq!(filled, 8);
            buffers.give_back(buffer);
        }
        assert!(buffers.wait_until_read(Duration::from_secs(5)));
        let again: Vec<Buffer> = std::iter::from_fn(|| buffers.request()).collect();
        assert!(again.iter().all(|buffer| addresses.contains(&buffer.start())));
    }

    #[test]
    fn many_threads_fill_while_one_reads() {
        let buffers = Arc::new(Buffers::new());
        let reader = buffers.clone();
        std::thread::spawn(move || {
            loop {
                let (buffer, filled) = reader.take();
                // SAFETY: the reader owns the buffer. The first byte was initialised before
                // `complete`, and the lock of `Buffers` orders that write before this read.
                assert_eq!(usize::from(unsafe { *buffer.start() }), filled);
                reader.give_back(buffer);
            }
        });
        std::thread::scope(|scope| {
            for thread in 1..=4_u8 {
                let buffers = buffers.clone();
                scope.spawn(move || {
                    for _ in 0..500 {
                        let Some(buffer) = buffers.request() else { continue };
                        // SAFETY: this thread owns the buffer, and the first byte is inside its
                        // memory.
                        unsafe { *buffer.start() = thread };
                        buffers.complete(buffer, usize::from(thread));
                    }
                });
            }
        });
        assert!(buffers.wait_until_read(Duration::from_secs(20)));
    }

    #[test]
    fn waiting_for_a_reader_that_does_not_come_ends() {
        let buffers = Buffers::new();
        let buffer = buffers.request().expect("room");
        buffers.complete(buffer, 8);
        assert!(!buffers.wait_until_read(Duration::from_millis(10)));
    }
}

#[cfg(all(test, loom))]
mod loom_tests {
    use loom::sync::Arc;

    use super::*;

    /// Checks that two threads that request the only buffer never have it at the same time. Its
    /// contents are read once, and then the buffer is available again.
    #[test]
    fn no_buffer_is_with_two_at_a_time() {
        loom::model(|| {
            let buffers = Arc::new(Buffers::new());
            let fill = |buffers: &Buffers| match buffers.request() {
                Some(buffer) => {
                    // SAFETY: this thread owns the buffer, and the first byte is inside its memory.
                    // If two threads had it, loom would detect the data race.
                    unsafe { *buffer.start() = 7 };
                    buffers.complete(buffer, 1);
                    1
                }
                None => 0,
            };
            let other = buffers.clone();
            let filler = loom::thread::spawn(move || fill(&other));
            let mut filled = fill(&buffers);
            if filled == 1 {
                let (buffer, bytes) = buffers.take();
                // SAFETY: this thread owns the buffer. The first byte was initialised before
                // `complete`, and the lock of `Buffers` orders that write before this read.
                assert_eq!((unsafe { *buffer.start() }, bytes), (7, 1));
                buffers.give_back(buffer);
            }
            filled += filler.join().expect("it ends");
            let state = buffers.lock();
            assert!(filled >= 1 && state.count == 1 && state.reading == 0);
            assert_eq!(state.empty.len() + state.full.len(), 1);
        });
    }
}
