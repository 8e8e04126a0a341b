//! What one thread recorded: chunks of fixed-size events that it alone writes.

use std::sync::Arc;

use mlprof_events::forking::apart_from_forks;
use mlprof_events::sync::{AtomicU64, Mutex, MutexGuard, Ordering, Tally};

/// How many events a chunk has room for.
#[cfg(not(loom))]
pub(crate) const CHUNK: usize = 1024;
#[cfg(loom)]
pub(crate) const CHUNK: usize = 2;

/// Room for [`CHUNK`] records of `WORDS` words.
///
/// *Invariant*: one thread writes. It stores the words of a record, then raises `length` over it
/// with release; a record below `length` never changes again. So whoever reads `length` with
/// acquire reads whole records.
pub(crate) struct Chunk<const WORDS: usize> {
    length: Tally,
    words: [[AtomicU64; WORDS]; CHUNK],
}

impl<const WORDS: usize> Chunk<WORDS> {
    /// An empty one. Made where it is to be: on the way it would lie on the stack of a thread of the program's, and
    /// be written twice.
    #[cfg(not(loom))]
    fn new() -> Arc<Self> {
        // SAFETY: all of it are atomic integers, for which zeros are a value.
        unsafe { Arc::<Self>::new_zeroed().assume_init() }
    }

    #[cfg(loom)]
    fn new() -> Arc<Self> {
        let unused = || std::array::from_fn(|_| AtomicU64::new(0));
        Arc::new(Self { length: Tally::new(0), words: std::array::from_fn(|_| unused()) })
    }

    /// Writes to all its pages, so that the system hands them out.
    fn touch(&self) {
        self.words.iter().flatten().for_each(|word| word.store(0, Ordering::Relaxed));
    }

    /// Adds a record; false if there is no room. Only the owning thread may call this.
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

/// How many more records a recording may keep, shared by its threads.
#[derive(Debug)]
pub struct Budget(std::sync::atomic::AtomicU64);

impl Budget {
    /// Room for so many.
    pub fn new(records: u64) -> Self {
        Self(records.into())
    }

    /// Takes room for `records`; false if there is not so much.
    pub fn take(&self, records: u64) -> bool {
        let relaxed = std::sync::atomic::Ordering::Relaxed;
        self.0.fetch_update(relaxed, relaxed, |left| left.checked_sub(records)).is_ok()
    }
}

/// Chunks that were used and are free again. The system hands out memory page by page, at the first
/// touch, which takes longer than recording what goes there: a warm-up has that done before the
/// steps that count.
#[derive(Default)]
pub struct Pool<const WORDS: usize>(Mutex<Vec<Arc<Chunk<WORDS>>>>);
mlprof_events::debug_as_name!([const WORDS: usize] Pool<WORDS>);

/// How many chunks a pool keeps: 10 MiB of events.
const POOL: usize = 256;

impl<const WORDS: usize> Pool<WORDS> {
    fn chunks(&self) -> MutexGuard<'_, Vec<Arc<Chunk<WORDS>>>> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn take(&self) -> Arc<Chunk<WORDS>> {
        let used = apart_from_forks(|| self.chunks().pop());
        used.unwrap_or_else(Chunk::new)
    }

    /// Has so many chunks ready, if it keeps as many at all.
    pub fn fill(&self, count: usize) {
        let missing = count.min(POOL).saturating_sub(self.chunks().len());
        // Made outside of the lock.
        let made: Vec<_> = (0..missing).map(|_| Chunk::new()).collect();
        for chunk in made {
            chunk.touch();
            self.give(chunk);
        }
    }

    /// Keeps a chunk that nobody else holds.
    fn give(&self, mut chunk: Arc<Chunk<WORDS>>) {
        let Some(own) = Arc::get_mut(&mut chunk) else { return };
        own.length = Tally::new(0);
        let mut chunks = self.chunks();
        if chunks.len() < POOL {
            chunks.push(chunk);
        }
    }
}

/// A growing list of records with one writer; anybody may read while it grows.
pub struct Log<const WORDS: usize> {
    pool: Arc<Pool<WORDS>>,
    chunks: Mutex<Vec<Arc<Chunk<WORDS>>>>,
    /// Records that found no room.
    dropped: Tally,
}
mlprof_events::debug_as_name!([const WORDS: usize] Log<WORDS>);

impl<const WORDS: usize> Log<WORDS> {
    /// One that is empty.
    pub fn new(pool: Arc<Pool<WORDS>>) -> Self {
        Self { pool, chunks: Mutex::new(Vec::new()), dropped: Tally::new(0) }
    }

    fn chunks(&self) -> MutexGuard<'_, Vec<Arc<Chunk<WORDS>>>> {
        self.chunks.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// How many records found no room.
    pub fn dropped(&self) -> u64 {
        self.dropped.get()
    }

    /// Takes what is in it now; what is added later is lost.
    pub fn take(&self) -> LogSnapshot<WORDS> {
        let chunks = std::mem::take(&mut *self.chunks());
        let chunks = chunks.into_iter().map(|chunk| {
            let length = chunk.len();
            (chunk, length)
        });
        LogSnapshot { pool: Some(self.pool.clone()), chunks: chunks.collect() }
    }
}

/// The writing end of a [`Log`].
#[derive(Default)]
pub struct LogWriter<const WORDS: usize> {
    chunk: Option<Arc<Chunk<WORDS>>>,
    /// Chunks that are full.
    full: u64,
}
mlprof_events::debug_as_name!([const WORDS: usize] LogWriter<WORDS>);

impl<const WORDS: usize> LogWriter<WORDS> {
    /// Adds a record where there is room already; false if there is none.
    #[inline(always)]
    pub fn push_to_current(&mut self, record: [u64; WORDS]) -> bool {
        self.chunk.as_ref().is_some_and(|chunk| chunk.push(record))
    }

    /// Adds a record to `log`, if the budget allows. Only one thread may write a log, always through
    /// the same writer.
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

    /// How many records were added.
    pub fn count(&self) -> u64 {
        let last = self.chunk.as_ref().map_or(0, |chunk| chunk.length.get());
        self.full * CHUNK as u64 + last
    }
}

/// The records of a [`Log`] at one moment.
pub struct LogSnapshot<const WORDS: usize> {
    /// None if it has no chunks.
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
    /// Of nobody.
    pub(crate) const fn empty() -> Self {
        Self { pool: None, chunks: Vec::new() }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.chunks.iter().map(|(_, length)| length).sum()
    }

    /// How many chunks it keeps.
    pub(crate) fn chunk_count(&self) -> usize {
        self.chunks.len()
    }

    /// The record at a place, counted from 0. All chunks but the last one are full.
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

    /// What a program gives its own threads may be little more than a chunk takes.
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
