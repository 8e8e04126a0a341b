//! Record of one thread: chunks of fixed-size events that only this thread writes.

use std::sync::Arc;

use mlprof_events::forking::apart_from_forks;
use mlprof_events::sync::{AtomicU64, Mutex, MutexGuard, Ordering, Tally};

/// Number of records in a chunk.
#[cfg(not(loom))]
pub(crate) const CHUNK: usize = 1024;
#[cfg(loom)]
pub(crate) const CHUNK: usize = 2;

/// Storage for [`CHUNK`] records of `WORDS` words.
///
/// *Invariant*: single writer. It stores the words of a record and then publishes a larger `length`
/// with release ordering. A record below `length` never changes again. A reader that loads `length`
/// with acquire ordering therefore sees complete records.
pub(crate) struct Chunk<const WORDS: usize> {
    length: Tally,
    words: [[AtomicU64; WORDS]; CHUNK],
}

impl<const WORDS: usize> Chunk<WORDS> {
    /// Creates an empty chunk directly on the heap. Otherwise it would first be written to the
    /// stack of a thread of the program, and then be copied.
    #[cfg(not(loom))]
    fn new() -> Arc<Self> {
        // SAFETY: a chunk consists only of atomic integers, for which all-zero bytes are valid.
        unsafe { Arc::<Self>::new_zeroed().assume_init() }
    }

    #[cfg(loom)]
    fn new() -> Arc<Self> {
        let unused = || std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { length: Tally::new(0), words: std::array::from_fn(|_| unused()) })
    }

    /// Writes to all pages of the chunk, so that the system allocates them.
    fn touch(&self) {
        self.words.iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Adds a record, or returns `false` if the chunk is full. Only the owning thread may call this
    /// function.
    #[inline(always)]
    fn push(&self, record: [u64; WORDS]) -> bool {
        let length = self.length.get();
        let Some(place) = self.words.get(length as usize) else { return false };
        for (word, value) in place.iter().zip(record) {
            word.store(value, Ordering::Relaxed);
        }
        self.length.publish(length + 1);
        true
    }

    fn len(&self) -> usize {
        self.length.get_published() as usize
    }

    fn get(&self, index: usize) -> [u64; WORDS] {
        std::array::from_fn(|word| self.words[index][word].load(Ordering::Relaxed))
    }
}

/// Number of further records that a recording may keep, shared by its threads.
#[derive(Debug)]
pub struct Budget(std::sync::atomic::AtomicU64);

impl Budget {
    /// Creates a budget of this number of records.
    pub fn new(records: u64) -> Self {
        Self(records.into())
    }

    /// Reserves space for `records`. Returns `false` if the budget is too small.
    pub fn take(&self, records: u64) -> bool {
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, |left| left.checked_sub(records)).is_ok()
    }
}

/// Pool of used chunks that are free again. The system allocates memory page by page at the first
/// access, which takes longer than recording the data. A warm-up does that before the steps that
/// count.
#[derive(Default)]
pub struct Pool<const WORDS: usize>(Mutex<Vec<Arc<Chunk<WORDS>>>>);
mlprof_events::debug_as_name!([const WORDS: usize] Pool<WORDS>);

/// Maximum number of chunks in a pool: 10 MiB of events.
const POOL: usize = 256;

impl<const WORDS: usize> Pool<WORDS> {
    fn chunks(&self) -> MutexGuard<'_, Vec<Arc<Chunk<WORDS>>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn take(&self) -> Arc<Chunk<WORDS>> {
        let used = apart_from_forks(|| self.chunks().pop());
        used.unwrap_or_else(Chunk::new)
    }

    /// Fills the pool up to `count` chunks, limited to its maximum size.
    pub fn fill(&self, count: usize) {
        let missing = count.min(POOL).saturating_sub(self.chunks().len());
        // The chunks are allocated without holding the lock.
        let made: Vec<_> = (0..missing).map(|_| Chunk::new()).collect();
        for chunk in made {
            chunk.touch();
            self.give(chunk);
        }
    }

    /// Puts a chunk back into the pool if there is no other reference to it.
    fn give(&self, mut chunk: Arc<Chunk<WORDS>>) {
        let Some(own) = Arc::get_mut(&mut chunk) else { return };
        own.length = Tally::new(0);
        let mut chunks = self.chunks();
        if chunks.len() < POOL {
            chunks.push(chunk);
        }
    }
}

/// A growing list of records with a single writer. Any thread may read it while it grows.
pub struct Log<const WORDS: usize> {
    pool: Arc<Pool<WORDS>>,
    chunks: Mutex<Vec<Arc<Chunk<WORDS>>>>,
    /// Number of records that were dropped for lack of space.
    dropped: Tally,
}
mlprof_events::debug_as_name!([const WORDS: usize] Log<WORDS>);

impl<const WORDS: usize> Log<WORDS> {
    /// Creates an empty log.
    pub fn new(pool: Arc<Pool<WORDS>>) -> Self {
        Self { pool, chunks: Mutex::new(Vec::new()), dropped: Tally::new(0) }
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<Arc<Chunk<WORDS>>>> {
        self.chunks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Returns the number of records that were dropped for lack of space.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Takes the current content. Records that are added later are lost.
    pub fn take(&self) -> LogSnapshot<WORDS> {
        let chunks = std::mem::take(&mut *self.chunks());
        let chunks = chunks.into_iter().map(|chunk| {
            let length = chunk.len();
            (chunk, length)
        });
        LogSnapshot { pool: Some(self.pool.clone()), chunks: chunks.collect() }
    }
}

/// Writing end of a [`Log`].
#[derive(Default)]
pub struct LogWriter<const WORDS: usize> {
    chunk: Option<Arc<Chunk<WORDS>>>,
    /// Number of full chunks.
    full: u64,
}
mlprof_events::debug_as_name!([const WORDS: usize] LogWriter<WORDS>);

impl<const WORDS: usize> LogWriter<WORDS> {
    /// Adds a record to the current chunk, or returns `false` if that is full.
    #[inline(always)]
    pub fn push_to_current(&mut self, record: [u64; WORDS]) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| chunk.push(record))
    }

    /// Adds a record to `log`, if the budget allows it. Only one thread may write a log, always
    /// through the same writer.
    pub fn push(&mut self, log: &Log<WORDS>, budget: &Budget, record: [u64; WORDS]) {
        if self.push_to_current(record) {
            return;
        }
        if !budget.take(CHUNK as u64) {
            log.dropped.add(1);
            return;
        }
        let chunk = log.pool.take();
        chunk.push(record);
        log.chunks().push(chunk.clone());
        self.full += u64::from(self.chunk.is_some());
        self.chunk = Some(chunk);
    }

    /// Returns the number of records that were added.
    pub fn count(&self) -> u64 {
        let last = self.chunk.as_ref().map_or(0, |chunk| chunk.length.get());
        self.full * CHUNK as u64 + last
    }
}

/// Records of a [`Log`] at one moment.
pub struct LogSnapshot<const WORDS: usize> {
    /// Pool of the chunks; `None` if the snapshot has no chunks.
    pool: Option<Arc<Pool<WORDS>>>,
    chunks: Vec<(Arc<Chunk<WORDS>>, usize)>,
}
mlprof_events::debug_as_name!([const WORDS: usize] LogSnapshot<WORDS>);

impl<const WORDS: usize> Drop for LogSnapshot<WORDS> {
    fn drop(&mut self) {
        for (chunk, _) in self.chunks.drain(..) {
            if let Some(pool) = &self.pool {
                pool.give(chunk);
            }
        }
    }
}

impl<const WORDS: usize> LogSnapshot<WORDS> {
    /// Creates a snapshot without records.
    pub(crate) const fn empty() -> Self {
        Self { pool: None, chunks: Vec::new() }
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|(_, length)| length).sum()
    }

    /// Returns the number of chunks.
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// Returns the record at an index, counted from 0. All chunks except the last are full.
    #[inline]
    pub(crate) fn get(&self, index: usize) -> Option<[u64; WORDS]> {
        let (chunk, length) = self.chunks.get(index / CHUNK)?;
        (index % CHUNK < *length).then(|| chunk.get(index % CHUNK))
    }

    #[cfg(all(test, loom))]
    pub(crate) fn records(&self) -> impl DoubleEndedIterator<Item = [u64; WORDS]> + '_ {
        self.chunks
            .iter()
            .flat_map(|(chunk, length)| (0..*length).map(move |index| chunk.get(index)))
    }
}

#[cfg(all(test, loom))]
mod loom_tests;

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Tests recording on a thread with a stack that is not much larger than a chunk.
    #[test]
    fn a_thread_with_a_small_stack_records() {
        let record = || {
            let (pool, budget) = (Arc::new(Pool::<8>::default()), Budget::new(10 * CHUNK as u64));
            pool.fill(1);
            let (log, mut writer) = (Log::new(pool), LogWriter::default());
            (0..3 * CHUNK as u64).for_each(|number| writer.push(&log, &budget, [number; 8]));
            log.take()
        };
        assert!(size_of::<Chunk<8>>() > 48 << 10);
        let thread = std::thread::Builder::new().stack_size(48 << 10).spawn(record);
        let recorded = thread.expect("a thread").join().expect("no panic");
        assert_eq!(recorded.len(), 3 * CHUNK);
        assert!((0..3 * CHUNK).all(|index| recorded.get(index) == Some([index as u64; 8])));
    }
}
