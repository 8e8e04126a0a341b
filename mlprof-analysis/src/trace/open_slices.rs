//! Search for the innermost open slice among crossing slices.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;

/// Slice of the walk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Span {
    /// End in nanoseconds.
    pub(super) end: i64,
    pub(super) is_step: bool,
}

/// Walk through a thread's slices in order of their starts. Each slice is identified by its
/// position in this order.
///
/// *Cost*: logarithmic in the number of slices for each slice, regardless of the number of open
/// slices.
#[derive(Debug)]
pub(super) struct OpenSlices {
    slices: Vec<Span>,
    /// All ends in order. The index of an end is the rank of its slice.
    ends: Vec<i64>,
    ranks: Vec<u32>,
    now: i64,
    /// Ranks of open slices.
    open: BinaryHeap<Reverse<u32>>,
    /// Positions of open slices by rank. `no_steps` excludes steps.
    all: Latest,
    no_steps: Latest,
}

impl OpenSlices {
    pub(super) fn new(slices: Vec<Span>) -> Self {
        let count = slices.len();
        let mut order: Vec<u32> = (0..count as u32).collect(); // fewer than 2^32
        order.sort_by_key(|position| slices[*position as usize].end);
        let mut ranks = vec![0; count];
        (0..).zip(&order).for_each(|(rank, position)| ranks[*position as usize] = rank);
        Self {
            ends: order.iter().map(|position| slices[*position as usize].end).collect(),
            ranks,
            slices,
            now: i64::MIN,
            open: BinaryHeap::new(),
            all: Latest::new(count),
            no_steps: Latest::new(count),
        }
    }

    pub(super) fn is_step(&self, position: u32) -> bool {
        self.slices[position as usize].is_step
    }

    /// Opens a slice, which begins now. A slice without a duration closes immediately.
    pub(super) fn open(&mut self, position: u32) {
        let Span { end, is_step } = self.slices[position as usize];
        if end <= self.now {
            return;
        }
        let rank = self.ranks[position as usize];
        self.open.push(Reverse(rank));
        self.all.set(rank, Some(position));
        if !is_step {
            self.no_steps.set(rank, Some(position));
        }
    }

    /// Divides the time up to `until` by the innermost slice.
    pub(super) fn until(&mut self, until: i64, mut stretch: impl FnMut(i64, i64, u32)) {
        while self.now < until {
            let Some(innermost) = self.innermost(0..self.ends.len()) else { break };
            // The innermost slice can change whenever a slice ends.
            let first = self.open.peek().map(|Reverse(rank)| self.ends[*rank as usize]);
            let next = first.unwrap_or(until).min(until);
            stretch(self.now, next, innermost);
            self.now = next;
            self.close();
        }
        self.now = until;
        self.close();
    }

    /// Closes slices that have ended by now.
    fn close(&mut self) {
        while let Some(Reverse(rank)) = self.open.peek().copied()
            && self.ends[rank as usize] <= self.now
        {
            self.open.pop();
            self.all.set(rank, None);
            self.no_steps.set(rank, None);
        }
    }

    /// Returns the innermost open slice that encloses a slice from now to `end`.
    pub(super) fn around(&mut self, end: i64) -> Option<u32> {
        self.innermost(self.before(end)..self.ends.len())
    }

    /// Returns the number of slices that end before `end`.
    fn before(&self, end: i64) -> usize {
        self.ends.partition_point(|other| *other < end)
    }

    /// Returns the slice that began last among the open slices of these ranks. If it is a step,
    /// slices that end within it take precedence, and the last one of these to begin is returned.
    fn innermost(&mut self, ranks: Range<usize>) -> Option<u32> {
        let last = self.all.last(ranks.clone())?;
        let Span { end, is_step } = self.slices[last as usize];
        let crossing = match is_step {
            true => self.no_steps.last(ranks.start..self.before(end)),
            false => None,
        };
        Some(crossing.unwrap_or(last))
    }
}

/// Positions by rank, stored in a binary tree of maxima for finding the last position in a range of
/// ranks.
#[derive(Debug)]
struct Latest {
    /// Position plus 1, or 0 for none. The root is at index 1, and the leaves are the second half.
    tree: Vec<u32>,
    /// Number of visited tree nodes.
    #[cfg(test)]
    visited: usize,
}

impl Latest {
    fn new(count: usize) -> Self {
        Self {
            tree: vec![0; 2 * count],
            #[cfg(test)]
            visited: 0,
        }
    }

    fn set(&mut self, rank: u32, position: Option<u32>) {
        let mut node = rank as usize + self.tree.len() / 2;
        self.tree[node] = position.map_or(0, |position| position + 1);
        while node > 1 {
            self.visit();
            node /= 2;
            self.tree[node] = self.tree[2 * node].max(self.tree[2 * node + 1]);
        }
    }

    fn last(&mut self, ranks: Range<usize>) -> Option<u32> {
        let leaves = self.tree.len() / 2;
        let (mut from, mut to) = (ranks.start + leaves, ranks.end + leaves);
        let mut last = 0;
        while from < to {
            self.visit();
            if from % 2 == 1 {
                last = last.max(self.tree[from]);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                last = last.max(self.tree[to]);
            }
            (from, to) = (from / 2, to / 2);
        }
        last.checked_sub(1)
    }

    #[cfg(test)]
    fn visit(&mut self) {
        self.visited += 1;
    }

    #[cfg(not(test))]
    #[expect(clippy::unused_self, clippy::needless_pass_by_ref_mut, reason = "tests count")]
    fn visit(&mut self) {}
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Finds the innermost slice by scanning all open slices, as a reference for the tests.
    fn innermost(open: &[(u32, Span)], least: i64) -> Option<u32> {
        let mut around = open.iter().rev().filter(|(_, span)| span.end >= least);
        let (last, step) = around.next()?;
        let crosses = |(_, span): &&(u32, Span)| !span.is_step && span.end < step.end;
        let crossing = around.find(crosses).filter(|_| step.is_step);
        Some(crossing.map_or(*last, |(position, _)| *position))
    }

    proptest! {
        #[test]
        fn the_innermost_slice_is_that_of_all_open_ones(
            slices in proptest::collection::vec((0_i64..4, 0_i64..12, 0_u8..3), 0..40),
        ) {
            let mut start = 0;
            let spans: Vec<(i64, Span)> = slices.into_iter().map(|(later, duration, kind)| {
                start += later;
                (start, Span { end: start + duration, is_step: kind == 0 })
            }).collect();
            let mut walk = OpenSlices::new(spans.iter().map(|(_, span)| *span).collect());
            let mut found = Vec::new();
            for (position, (start, span)) in (0..).zip(&spans) {
                walk.until(*start, |from, to, innermost| {
                    found.extend((from..to).map(|moment| (moment, innermost)));
                });
                let open: Vec<(u32, Span)> = (0..position)
                    .zip(&spans)
                    .filter(|(_, (_, other))| other.end > *start)
                    .map(|(position, (_, other))| (position, *other))
                    .collect();
                prop_assert_eq!(walk.around(span.end), innermost(&open, span.end));
                walk.open(position);
            }
            walk.until(i64::MAX, |from, to, innermost| {
                found.extend((from..to).map(|moment| (moment, innermost)));
            });
            let last = spans.iter().map(|(_, span)| span.end).max().unwrap_or(0);
            let expected = (0..last).filter_map(|moment| {
                let open = (0..).zip(&spans).filter(|(_, (start, span))| *start <= moment && span.end > moment);
                let open: Vec<(u32, Span)> = open.map(|(position, (_, span))| (position, *span)).collect();
                Some((moment, innermost(&open, i64::MIN)?))
            });
            prop_assert_eq!(found, expected.collect::<Vec<_>>());
        }
    }

    /// Checks the cost for slices that all cross each other. Each begins and ends later than the
    /// previous one.
    #[test]
    fn work_grows_with_the_logarithm_of_open_slices() {
        let visited = |count: u32| {
            let spans = (0..count)
                .map(|start| Span { end: i64::from(start + count), is_step: start % 3 == 0 });
            let mut walk = OpenSlices::new(spans.collect());
            let mut stretches = 0_u32;
            for position in 0..count {
                walk.until(position.into(), |_, _, _| stretches += 1);
                assert_eq!(walk.around(i64::from(position + count)), None);
                walk.open(position);
            }
            walk.until(i64::MAX, |_, _, _| stretches += 1);
            assert_eq!(stretches, 2 * count - 1);
            walk.all.visited + walk.no_steps.visited
        };
        let (few, many) = (visited(1_000), visited(8_000));
        assert!(many < 12 * few, "{few} and {many}");
    }
}
