//! Nesting of intervals.

/// Intervals that are open at a point that moves back in time.
///
/// Intervals are added in descending order of their ends, so that an enclosing interval precedes
/// those inside it. Only intervals that may still enclose others are kept, at most as many as are
/// nested.
pub(crate) struct Nest<T> {
    open: Vec<(i64, T)>,
    last_end: i64,
}

impl<T> Nest<T> {
    pub(crate) fn new() -> Self {
        Self { open: Vec::new(), last_end: i64::MAX }
    }

    /// Returns `true` if the interval lies inside, around or beside each [added](Self::push)
    /// interval, and no added interval ended earlier.
    pub(crate) fn fits(&self, start: i64, end: i64) -> bool {
        let around = self.open[..self.open_at(start, end)].last();
        end <= self.last_end && around.is_none_or(|(around, _)| *around <= start)
    }

    /// Returns the number of open intervals that do not begin after `end`. An interval that begins
    /// exactly at `end` encloses an interval without length and lies beside any other.
    fn open_at(&self, start: i64, end: i64) -> usize {
        let is_open = |(open, _): &(i64, T)| *open < end || (*open == end && start == end);
        self.open.iter().rposition(is_open).map_or(0, |last| last + 1)
    }

    /// Returns the value of the interval that encloses this one. The interval must
    /// [fit](Self::fits).
    pub(crate) fn parent(&self, start: i64, end: i64) -> Option<&T> {
        self.open[..self.open_at(start, end)].last().map(|(_, value)| value)
    }

    /// Adds an interval that [fits](Self::fits).
    pub(crate) fn push(&mut self, start: i64, end: i64, value: T) {
        self.open.truncate(self.open_at(start, end));
        self.last_end = end;
        self.open.push((start, value));
    }

    /// Returns the innermost open interval that began at `time` or earlier.
    pub(crate) fn around(&self, time: i64) -> Option<&T> {
        self.open.iter().rev().find(|(start, _)| *start <= time).map(|(_, value)| value)
    }

    /// Returns the innermost interval around a moment. Intervals that end later must not be added
    /// afterwards.
    pub(crate) fn at(&mut self, time: i64) -> Option<&T> {
        self.open.truncate(self.open_at(time, time));
        self.last_end = self.last_end.min(time);
        self.open.last().map(|(_, value)| value)
    }
}

/// As many [nests](Nest) as are needed to place every interval.
pub(crate) struct Lanes<T> {
    lanes: Vec<Nest<T>>,
}

/// Maximum number of lanes. More lanes could not be displayed.
pub(crate) const MOST_LANES: usize = 256;

impl<T> Lanes<T> {
    pub(crate) fn new() -> Self {
        Self { lanes: vec![Nest::new()] }
    }

    /// Returns the number of a lane in which the interval fits, counted from 0, or `None` if there
    /// would be too many lanes. Intervals should come in descending order of their ends. Others may
    /// get a separate lane.
    pub(crate) fn place(&mut self, start: i64, end: i64, first: usize) -> Option<usize> {
        let fitting = (first..self.lanes.len()).find(|lane| self.lanes[*lane].fits(start, end));
        let lane = fitting.unwrap_or(self.lanes.len().max(first));
        if lane >= MOST_LANES {
            return None;
        }
        while self.lanes.len() <= lane {
            self.lanes.push(Nest::new());
        }
        Some(lane)
    }

    /// Returns a lane by the number that [`place`](Self::place) returned. Lane 0 always exists.
    pub(crate) fn lane(&mut self, lane: usize) -> &mut Nest<T> {
        &mut self.lanes[lane]
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn crosses((a, b): (i64, i64), (c, d): (i64, i64)) -> bool {
        (a < c && c < b && b < d) || (c < a && a < d && d < b)
    }

    proptest! {
        #[test]
        fn no_two_intervals_of_a_lane_cross(
            mut intervals in prop::collection::vec((0_i64..60, 0_i64..20), 0..60),
            is_sorted in any::<bool>(),
        ) {
            for interval in &mut intervals {
                interval.1 += interval.0;
            }
            if is_sorted {
                intervals.sort_by_key(|(start, end)| (-end, *start));
            }
            let mut lanes = Lanes::new();
            let mut placed: Vec<(usize, (i64, i64))> = Vec::new();
            for (start, end) in intervals {
                let lane = lanes.place(start, end, 0).expect("60 lanes are enough");
                if is_sorted {
                    // The expected lane is the first in which the interval crosses no other.
                    let is_free = |lane: usize| {
                        !placed.iter().any(|(other, interval)| {
                            *other == lane && crosses(*interval, (start, end))
                        })
                    };
                    prop_assert_eq!((0..).find(|lane| is_free(*lane)), Some(lane));
                }
                lanes.lane(lane).push(start, end, ());
                placed.push((lane, (start, end)));
            }
            for (index, (lane, one)) in placed.iter().enumerate() {
                for (_, other) in placed[..index].iter().filter(|(other, _)| other == lane) {
                    prop_assert!(!crosses(*one, *other), "{one:?} and {other:?}");
                }
            }
        }
    }

    #[test]
    fn there_are_only_so_many_lanes() {
        let mut lanes = Lanes::new();
        let intervals = (0..1000).map(|n| (1000 - n, 3000 - n));
        let places: Vec<_> = intervals
            .map(|(start, end)| {
                let lane = lanes.place(start, end, 0);
                if let Some(lane) = lane {
                    lanes.lane(lane).push(start, end, ());
                }
                lane
            })
            .collect();
        assert_eq!(places[MOST_LANES - 1], Some(MOST_LANES - 1));
        assert_eq!(places[MOST_LANES..].iter().flatten().count(), 0);
    }

    #[test]
    fn the_innermost_interval_around_a_moment_is_found() {
        let mut nest = Nest::new();
        for (start, end, name) in [(0, 100, "outer"), (50, 90, "late"), (10, 40, "early")] {
            assert!(nest.fits(start, end));
            nest.push(start, end, name);
        }
        assert_eq!((nest.around(15), nest.around(5)), (Some(&"early"), Some(&"outer")));
        assert_eq!(nest.at(10), Some(&"early"));
        assert_eq!(nest.at(9), Some(&"outer"));
        assert_eq!(nest.at(-1), None);
    }
}
