//! Recorded work of each thread in all cycles.

use std::collections::{BTreeMap, BTreeSet};

use mlprof_events::clock::Rate;
use mlprof_report::tensor::RecordedThread;

use crate::cycle::Track;
use mlprof_events::OrderExt;

/// Sums by thread name. The memory depends on the number of threads.
#[derive(Default)]
pub(super) struct ThreadSums(BTreeMap<String, Sums>);

#[derive(Default)]
struct Sums {
    numbers: BTreeSet<u64>,
    events: u64,
    ticks: u64,
}

impl ThreadSums {
    /// Adds a thread's track of a cycle. `ticks` is the total duration of its outermost scopes.
    pub(super) fn add(&mut self, track: &Track, ticks: u64) {
        let events = track.event_count() as u64;
        if events > 0 {
            self.add_named(&track.thread_name, track.thread, events, ticks);
        }
    }

    fn add_named(&mut self, name: &str, number: u64, events: u64, ticks: u64) {
        if !self.0.contains_key(name) {
            self.0.insert(name.to_owned(), Sums::default());
        }
        let Some(sums) = self.0.get_mut(name) else { return };
        sums.numbers.insert(number);
        sums.events += events;
        sums.ticks += ticks;
    }

    /// Returns the rows, sorted by descending duration.
    pub(super) fn rows(&self, rate: Rate) -> Vec<RecordedThread> {
        let row = |(name, sums): (&String, &Sums)| RecordedThread {
            thread: name.clone(),
            threads: sums.numbers.len() as u64,
            events: sums.events,
            seconds: rate.seconds(sums.ticks),
        };
        let mut rows: Vec<_> = self.0.iter().map(row).collect();
        rows.order_by(|one, other| other.seconds.total_cmp(&one.seconds));
        rows
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_name_are_one_row_in_all_cycles() {
        let mut sums = ThreadSums::default();
        for (name, number, events, ticks) in
            [("worker", 1, 3, 10), ("main", 7, 2, 90), ("worker", 2, 4, 20), ("worker", 1, 5, 30)]
        {
            sums.add_named(name, number, events, ticks);
        }
        let rows = sums.rows(Rate::now());
        let told: Vec<_> =
            rows.iter().map(|row| (row.thread.as_str(), row.threads, row.events)).collect();
        assert_eq!(told, [("main", 1, 2), ("worker", 2, 12)]);
        assert!((rows[0].seconds / rows[1].seconds - 1.5).abs() < 1e-9, "{rows:?}");
    }
}
