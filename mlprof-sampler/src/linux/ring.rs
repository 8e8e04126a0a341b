//! Samples on their way from a thread's signal handler to the thread that collects them.

use std::sync::atomic::{AtomicU64, Ordering};

/// A queue of words for one writer and one reader.
///
/// *Invariant*: the words from `read` to `written` are the reader's, all others the writer's.
pub(super) struct Ring {
    words: Box<[AtomicU64]>,
    written: AtomicU64,
    read: AtomicU64,
    /// Ticks of samples for which there was no room.
    dropped: AtomicU64,
}

/// A record that is being written. Nobody sees it before [`finish`](Self::finish).
pub(super) struct Writing<'ring> {
    ring: &'ring Ring,
    start: u64,
    length: u64,
    room: u64,
}

impl Ring {
    /// `words` is a power of two.
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

    /// Only the writer may call this, and finish one record before it begins another.
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

    /// Up to where there is something to take now. What is written meanwhile comes the next time:
    /// a reader may be slower than the writer, who may even be a handler on the reader's thread.
    pub(super) fn written(&self) -> u64 {
        self.written.load(Ordering::Acquire)
    }

    /// Takes one record, whose first word says its length in the low 16 bits, into `record`; false
    /// if there is none before `written`. Only the reader may call this.
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
    /// False if there is no room: the record cannot be finished then.
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

    /// Changes a word that was pushed.
    pub(super) fn set(&mut self, index: u64, word: u64) {
        if index < self.length.min(self.room) {
            self.ring.word(self.start + index).store(word, Ordering::Relaxed);
        }
    }

    /// Hands the record to the reader; false if it did not fit.
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
