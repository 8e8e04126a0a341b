//! Merged view of a thread's own record and of data that became known later.

use super::event::{Event, MemoryEvent};
use super::event_log::LogSnapshot;

/// An item that is sorted by time.
pub(super) trait Timed: Copy {
    /// Returns the time in ticks.
    fn moment(&self) -> u64;
}

impl Timed for Event {
    fn moment(&self) -> u64 {
        self.end.ticks()
    }
}

impl Timed for MemoryEvent {
    fn moment(&self) -> u64 {
        self.time.ticks()
    }
}

/// Double-ended iterator over both lists in chronological order. An item that became known later
/// precedes a recorded one with the same time, because a call is inside the scope that made it.
pub(super) struct InTimeOrder<'track, T, const WORDS: usize, R> {
    log: &'track LogSnapshot<WORDS>,
    read: R,
    recorded: (usize, usize),
    later: &'track [T],
}

impl<'track, T: Timed, const WORDS: usize, R> InTimeOrder<'track, T, WORDS, R>
where
    R: Fn([u64; WORDS]) -> Option<T>,
{
    /// Creates an iterator. Both lists must be in chronological order. `read` decodes a record from
    /// the words of the log.
    pub(super) fn new(log: &'track LogSnapshot<WORDS>, later: &'track [T], read: R) -> Self {
        Self { log, read, recorded: (0, log.len()), later }
    }

    #[inline]
    fn recorded(&self, index: usize) -> Option<T> {
        (self.read)(self.log.get(index)?)
    }

    fn has_recorded(&self) -> bool {
        self.recorded.0 < self.recorded.1
    }
}

impl<T: Timed, const WORDS: usize, R> Iterator for InTimeOrder<'_, T, WORDS, R>
where
    R: Fn([u64; WORDS]) -> Option<T>,
{
    type Item = T;

    #[inline]
    fn next(&mut self) -> Option<T> {
        while self.has_recorded() {
            let recorded = self.recorded(self.recorded.0);
            if let Some((first, rest)) = self.later.split_first()
                && let Some(recorded) = &recorded
                && first.moment() <= recorded.moment()
            {
                self.later = rest;
                return Some(*first);
            }
            self.recorded.0 += 1;
            if recorded.is_some() {
                return recorded;
            }
        }
        let (first, rest) = self.later.split_first()?;
        self.later = rest;
        Some(*first)
    }
}

impl<T: Timed, const WORDS: usize, R> DoubleEndedIterator for InTimeOrder<'_, T, WORDS, R>
where
    R: Fn([u64; WORDS]) -> Option<T>,
{
    #[inline]
    fn next_back(&mut self) -> Option<T> {
        while self.has_recorded() {
            let recorded = self.recorded(self.recorded.1 - 1);
            if let Some((last, rest)) = self.later.split_last()
                && let Some(recorded) = &recorded
                && last.moment() > recorded.moment()
            {
                self.later = rest;
                return Some(*last);
            }
            self.recorded.1 -= 1;
            if recorded.is_some() {
                return recorded;
            }
        }
        let (last, rest) = self.later.split_last()?;
        self.later = rest;
        Some(*last)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::cycle::event_log::{Budget, CHUNK, Log, LogWriter, Pool};
    use mlprof_events::Timestamp;

    #[derive(Debug, Clone, Copy, PartialEq, Eq)]
    struct At(u64, &'static str);

    impl Timed for At {
        fn moment(&self) -> u64 {
            Timestamp::from_ticks(self.0).ticks()
        }
    }

    fn log(moments: impl Iterator<Item = u64>) -> LogSnapshot<1> {
        let log = Log::new(Arc::new(Pool::default()));
        let (mut writer, budget) = (LogWriter::default(), Budget::new(u64::MAX));
        moments.for_each(|moment| writer.push(&log, &budget, [moment]));
        log.take()
    }

    #[test]
    fn both_lists_come_in_the_order_of_time_from_either_end() {
        let log = log([2, 4, 4, 9].into_iter());
        let later = [At(1, "later"), At(4, "later"), At(9, "later"), At(12, "later")];
        let read = |[moment]: [u64; 1]| Some(At(moment, "recorded"));
        let forward: Vec<_> = InTimeOrder::new(&log, &later, read).collect();
        let mut backward: Vec<_> = InTimeOrder::new(&log, &later, read).rev().collect();
        backward.reverse();
        let expected = [
            (1, "later"),
            (2, "recorded"),
            (4, "later"),
            (4, "recorded"),
            (4, "recorded"),
            (9, "later"),
            (9, "recorded"),
            (12, "later"),
        ];
        assert_eq!(forward, expected.map(|(moment, list)| At(moment, list)));
        assert_eq!(forward, backward);
        let mut both = InTimeOrder::new(&log, &later, read);
        assert_eq!((both.next(), both.next_back()), (Some(forward[0]), Some(forward[7])));
        assert_eq!(both.collect::<Vec<_>>(), forward[1..7]);
    }

    #[test]
    fn lists_longer_than_a_chunk_and_records_that_cannot_be_read_are_gone_through_whole() {
        let length = 2 * CHUNK as u64 + 3;
        let log = log(0..length);
        let later = [At(CHUNK as u64, "later")];
        let even = |[moment]: [u64; 1]| (moment % 2 == 0).then_some(At(moment, "recorded"));
        let forward: Vec<_> = InTimeOrder::new(&log, &later, even).collect();
        assert_eq!(forward.len() as u64, length.div_ceil(2) + 1);
        assert!(forward.is_sorted_by_key(|at| at.0));
        assert!(InTimeOrder::new(&log, &later, even).rev().eq(forward.iter().rev().copied()));
    }
}
