//! Union of time intervals.

/// Sorted intervals that neither overlap nor touch.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Union(Vec<(i64, i64)>);

impl Union {
    pub(crate) fn of(mut parts: Vec<(i64, i64)>) -> Self {
        parts.retain(|(start, end)| start < end);
        parts.sort_unstable();
        let mut union: Vec<(i64, i64)> = Vec::new();
        for (start, end) in parts {
            match union.last_mut() {
                Some((_, last)) if *last >= start => *last = (*last).max(end),
                _ => union.push((start, end)),
            }
        }
        Self(union)
    }

    pub(crate) fn length(&self) -> i64 {
        self.0.iter().map(|(start, end)| end - start).sum()
    }

    pub(crate) fn parts(&self) -> &[(i64, i64)] {
        &self.0
    }

    /// Returns the intersection with another union.
    pub(crate) fn within(&self, other: &Self) -> Self {
        let mut common = Vec::new();
        let mut first = 0;
        for (from, to) in &other.0 {
            first += self.0[first..].partition_point(|(_, end)| end <= from);
            let inside = self.0[first..].iter().take_while(|(start, _)| start < to);
            common.extend(inside.map(|(start, end)| (*start.max(from), *end.min(to))));
        }
        Self(common)
    }

    pub(crate) fn or(&self, other: &Self) -> Self {
        Self::of(self.0.iter().chain(&other.0).copied().collect())
    }

    /// Returns the length of the intersection.
    pub(crate) fn common(&self, other: &Self) -> i64 {
        self.length() + other.length() - self.or(other).length()
    }

    /// Returns the first start and the last end.
    pub(crate) fn span(&self) -> Option<(i64, i64)> {
        Some((self.0.first()?.0, self.0.last()?.1))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn touching_or_overlapping_intervals_merge() {
        let union = Union::of(vec![(10, 20), (0, 5), (5, 7), (18, 30), (40, 40)]);
        assert_eq!(union, Union(vec![(0, 7), (10, 30)]));
        assert_eq!(union.length(), 27);
        assert_eq!(union.within(&Union(vec![(6, 12)])), Union(vec![(6, 7), (10, 12)]));
        assert_eq!(union.common(&Union::of(vec![(6, 15)])), 6);
        assert_eq!(union.span(), Some((0, 30)));
    }

    proptest! {
        /// Compares the lengths with a count of each unit of time.
        #[test]
        fn lengths_are_what_one_counts(
            one in proptest::collection::vec((0_i64..60, 0_i64..20), 0..12),
            other in proptest::collection::vec((0_i64..60, 0_i64..20), 0..12),
        ) {
            let parts = |of: &[(i64, i64)]| of.iter().map(|(start, length)| (*start, start + length)).collect::<Vec<_>>();
            let (one, other) = (parts(&one), parts(&other));
            let is_in = |parts: &[(i64, i64)], time: i64| parts.iter().any(|(start, end)| (*start..*end).contains(&time));
            let count = |is_counted: &dyn Fn(i64) -> bool| (0..100).filter(|time| is_counted(*time)).count() as i64;
            let (a, b) = (Union::of(one.clone()), Union::of(other.clone()));
            prop_assert_eq!(a.length(), count(&|time| is_in(&one, time)));
            prop_assert_eq!(a.or(&b).length(), count(&|time| is_in(&one, time) || is_in(&other, time)));
            prop_assert_eq!(a.common(&b), count(&|time| is_in(&one, time) && is_in(&other, time)));
            prop_assert_eq!(a.within(&b).length(), a.common(&b));
        }
    }
}
