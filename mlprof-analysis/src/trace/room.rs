//! Search for lanes with room for a slice.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Ends of open slices on any number of lanes. Slices on a lane nest, so the last added slice ends
/// first.
///
/// *Cost*: logarithmic in the number of lanes, regardless of the number of open slices.
#[derive(Debug, Default)]
pub(super) struct Room {
    /// Ends of open slices on each lane, innermost last.
    open: Vec<Vec<i64>>,
    /// All ends with their lanes.
    ends: BinaryHeap<Reverse<(i64, usize)>>,
    /// Complete binary tree of maxima over the innermost ends of all lanes. An empty lane or a lane
    /// that does not exist yet has `i64::MAX`. The root is at index 1, and the leaves are the
    /// second half.
    innermost: Vec<i64>,
    /// Number of visited tree nodes.
    #[cfg(test)]
    visited: usize,
}

impl Room {
    /// Opens a slice that ends at `end` on a lane.
    pub(super) fn add(&mut self, lane: usize, end: i64) {
        if self.open.len() <= lane {
            self.open.resize_with(lane + 1, Vec::new);
        }
        self.open[lane].push(end);
        self.ends.push(Reverse((end, lane)));
        self.update(lane);
    }

    /// Closes all slices that have ended by `now`.
    pub(super) fn close(&mut self, now: i64) {
        while let Some(Reverse((end, lane))) = self.ends.peek().copied()
            && end <= now
        {
            self.ends.pop();
            self.open[lane].pop();
            self.update(lane);
        }
    }

    /// Returns the first lane from `from` on with room for a slice that ends at `end`.
    pub(super) fn first(&mut self, from: usize, end: i64) -> usize {
        let leaves = self.innermost.len() / 2;
        if from >= leaves {
            return from;
        }
        // The search goes up to the first subtree on the right with room, then down to its first
        // leaf.
        let mut node = from + leaves;
        while self.innermost[node] < end {
            self.visit();
            // A right child has no further sibling, so the search continues at its parent.
            while node % 2 == 1 {
                node /= 2;
                if node <= 1 {
                    return leaves;
                }
            }
            node += 1;
        }
        while node < leaves {
            self.visit();
            node *= 2;
            if self.innermost[node] < end {
                node += 1;
            }
        }
        node - leaves
    }

    fn update(&mut self, lane: usize) {
        let leaves = self.innermost.len() / 2;
        if lane >= leaves {
            return self.grow(lane);
        }
        let mut node = lane + leaves;
        self.innermost[node] = self.open[lane].last().copied().unwrap_or(i64::MAX);
        while node > 1 {
            self.visit();
            node /= 2;
            self.innermost[node] = self.innermost[2 * node].max(self.innermost[2 * node + 1]);
        }
    }

    /// Enlarges the tree so that it includes this lane.
    fn grow(&mut self, lane: usize) {
        let leaves = (lane + 1).next_power_of_two();
        let of_lane = |lane: usize| self.open.get(lane).and_then(|open| open.last()).copied();
        let mut innermost = vec![i64::MAX; 2 * leaves];
        for (lane, innermost) in innermost[leaves..].iter_mut().enumerate() {
            *innermost = of_lane(lane).unwrap_or(i64::MAX);
        }
        for node in (1..leaves).rev() {
            innermost[node] = innermost[2 * node].max(innermost[2 * node + 1]);
        }
        self.innermost = innermost;
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

    proptest! {
        /// Compares the search with a scan of all lanes.
        #[test]
        fn the_first_lane_with_room_is_found(
            slices in proptest::collection::vec((0_i64..4, 0_i64..12, 0_usize..2), 0..60),
        ) {
            let mut room = Room::default();
            let mut lanes: Vec<Vec<i64>> = Vec::new();
            let mut now = 0;
            for (later, duration, from) in slices {
                now += later;
                let end = now + duration;
                for lane in &mut lanes {
                    lane.retain(|end| *end > now);
                }
                let has_room = |lane: &usize| {
                    lanes.get(*lane).and_then(|lane| lane.last()).is_none_or(|last| *last >= end)
                };
                let expected = (from..).find(has_room).expect("there are more lanes");
                room.close(now);
                prop_assert_eq!(room.first(from, end), expected);
                room.add(expected, end);
                if lanes.len() <= expected {
                    lanes.resize_with(expected + 1, Vec::new);
                }
                lanes[expected].push(end);
            }
        }
    }

    /// Checks the cost for slices that all cross each other. Each begins and ends later than the
    /// previous one.
    #[test]
    fn work_grows_with_the_logarithm_of_lanes() {
        let visited = |count: i64| {
            let mut room = Room::default();
            for start in 0..count {
                room.close(start);
                let lane = room.first(0, start + count);
                assert_eq!(lane, start as usize);
                room.add(lane, start + count);
            }
            room.close(i64::MAX - 1);
            room.visited
        };
        let (few, many) = (visited(1_000), visited(8_000));
        assert!(many < 12 * few, "{few} and {many}");
    }
}
