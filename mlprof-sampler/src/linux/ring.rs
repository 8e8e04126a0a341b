//! Queue that passes samples from a thread's signal handler to the collecting thread.

use std::sync::atomic::{AtomicU64, Ordering};

/// A lock-free queue of words with a single writer and a single reader.
///
/// *Invariant*: the words from `read` up to `written` belong to the reader, all others to the
/// writer. Each side advances its own position with a release store after it has used the words.
/// The other side loads that position with acquire ordering before it uses them.
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    written: AtomicU64,
    read: AtomicU64,
    /// Number of ticks in samples that were dropped for lack of space.
    dropped: AtomicU64,
}

/// A record that is being written. The reader does not see it before [`finish`](Self::finish).
pub(super) struct Writing<'ring> {
    ring: &'ring Ring,
    start: u64,
    length: u64,
    room: u64,
}

impl Ring {
    /// Creates an empty queue. `words` must be a power of two.
    pub(super) fn new(words: usize) -> Self {
        Self {
            words: (0..words).map(|_| AtomicU64::new(0)).collect(),
            written: AtomicU64::new(0),
            read: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
        }
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.words.len()
    }

    fn word(&self, position: u64) -> &AtomicU64 {
        &self.words[position as usize & (self.words.len() - 1)]
    }

    /// Begins a record. Only the writer may call this function, and it must finish one record
    /// before it begins the next.
    pub(super) fn begin(&self) -> Writing<'_> {
        let start = self.written.load(Ordering::Relaxed);
        let taken = start - self.read.load(Ordering::Acquire);
        Writing { ring: self, start, length: 0, room: self.words.len() as u64 - taken }
    }

    pub(super) fn drop_ticks(&self, ticks: u64) {
        self.dropped.store(self.dropped.load(Ordering::Relaxed) + ticks, Ordering::Relaxed);
    }

    pub(super) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Returns the position up to which records can be read now. Records that are written later
    /// wait for the next call. The reader may be slower than the writer, and the writer may even be
    /// a handler that interrupts the reader's thread.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Moves one record into `record`. The low 16 bits of its first word contain its length.
    /// Returns `false` if all records before `written` were taken. Only the reader may call this
    /// function.
    pub(super) fn take(&self, written: u64, record: &mut Vec<u64>) -> bool {
        record.clear();
        let read = self.read.load(Ordering::Relaxed);
        if read == written {
            return false;
        }
        let length = (self.word(read).load(Ordering::Relaxed) & 0xffff).clamp(1, written - read);
        record.extend((read..read + length).map(|at| self.word(at).load(Ordering::Relaxed)));
        self.read.store(read + length, Ordering::Release);
        true
    }
}

impl Writing<'_> {
    /// Appends a word. Returns `false` if the ring is full, in which case the record cannot be
    /// finished.
    pub(super) fn push(&mut self, word: u64) -> bool {
        let fits = self.length < self.room;
        if fits {
            self.ring.word(self.start + self.length).store(word, Ordering::Relaxed);
        }
        self.length += 1;
        fits
    }

    pub(super) fn length(&self) -> u64 {
        self.length
    }

    /// Replaces a word that was already appended.
    pub(super) fn set(&mut self, index: u64, word: u64) {
        if index < self.length.min(self.room) {
            self.ring.word(self.start + index).store(word, Ordering::Relaxed);
        }
    }

    /// Publishes the record to the reader. Returns `false` if the record did not fit.
    pub(super) fn finish(self) -> bool {
        let fits = self.length <= self.room;
        if fits {
            self.ring.written.store(self.start + self.length, Ordering::Release);
        }
        fits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn write(ring: &Ring, length: u64, value: u64) -> bool {
        let mut writing = ring.begin();
        writing.push(length);
        for _ in 1..length {
            writing.push(value);
        }
        writing.finish()
    }

    #[test]
    fn records_come_out_as_they_went_in_and_too_many_are_refused() {
        let ring = Ring::new(16);
        let mut record = Vec::new();
        for round in 0..100 {
            assert!(write(&ring, 7, round) && write(&ring, 5, round + 1), "{round}");
            assert!(!write(&ring, 5, 9), "17 words do not fit");
            let written = ring.written();
            assert!(ring.take(written, &mut record));
            assert_eq!(record, [7, round, round, round, round, round, round]);
            assert!(ring.take(written, &mut record));
            assert_eq!(record, [5, round + 1, round + 1, round + 1, round + 1]);
            assert!(!ring.take(written, &mut record));
        }
    }

    #[test]
    fn a_reader_beside_the_writer_sees_whole_records() {
        let ring = Ring::new(64);
        std::thread::scope(|threads| {
            let writer = threads.spawn(|| {
                let mut written = 0_u64;
                for value in 0..200_000 {
                    written += u64::from(write(&ring, 2 + value % 9, value));
                }
                written
            });
            let mut record = Vec::new();
            let (mut taken, mut last) = (0, None);
            let mut is_over = false;
            while !is_over {
                is_over = writer.is_finished();
                let written = ring.written();
                while ring.take(written, &mut record) {
                    let value = record[1];
                    assert_eq!(record.len() as u64, 2 + value % 9);
                    assert!(record[1..].iter().all(|word| *word == value));
                    assert!(last.is_none_or(|last| last < value));
                    last = Some(value);
                    taken += 1;
                }
            }
            assert_eq!(writer.join().ok(), Some(taken));
        });
    }
}
