//! Time window of the result tables.

use super::union::Union;

/// Time of all steps, or of the whole trace if it has no steps. All tables of threads and devices
/// cover this window.
///
/// A gap between two steps belongs to the window unless recording paused in it, for example for a
/// validation within an epoch. Times are nanoseconds of the trace's own time.
#[derive(Debug, Clone)]
pub(crate) struct Window(Union);

impl Window {
    pub(crate) fn new(parts: Vec<(i64, i64)>) -> Self {
        Self(Union::of(parts))
    }

    /// Returns the parts in order of time. They neither overlap nor touch.
    pub(crate) fn parts(&self) -> &[(i64, i64)] {
        self.0.parts()
    }

    pub(crate) fn union(&self) -> &Union {
        &self.0
    }

    /// Returns the length without pauses, in nanoseconds.
    pub(crate) fn length(&self) -> i64 {
        self.0.length()
    }

    /// Returns the first and the last moment.
    pub(crate) fn span(&self) -> (i64, i64) {
        self.0.span().unwrap_or((0, 0))
    }

    /// Returns the length of the window between `start` and `end`, or 0 if `end` precedes `start`.
    pub(crate) fn clip(&self, start: i64, end: i64) -> i64 {
        if end <= start {
            return 0;
        }
        let parts = self.parts();
        let first = parts.partition_point(|part| part.1 <= start);
        let parts = parts[first..].iter().take_while(|part| part.0 < end);
        parts.map(|part| part.1.min(end) - part.0.max(start)).sum()
    }

    /// Returns `true` if the window contains this moment, including both ends.
    pub(crate) fn contains(&self, moment: i64) -> bool {
        let parts = self.parts();
        let first = parts.partition_point(|part| part.1 < moment);
        parts.get(first).is_some_and(|part| part.0 <= moment)
    }

    /// Returns `true` if the window contains any time between `start` and `end`.
    pub(crate) fn touches(&self, start: i64, end: i64) -> bool {
        self.clip(start, end) > 0 || self.contains(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_outside_its_parts_is_clipped() {
        let window = Window::new(vec![(10, 20), (30, 40)]);
        assert_eq!((window.length(), window.span()), (20, (10, 40)));
        assert_eq!(window.clip(0, 100), 20);
        assert_eq!((window.clip(15, 35), window.clip(20, 30), window.clip(12, 14)), (10, 0, 2));
        assert_eq!(window.clip(18, 12), 0);
        let contained = [9, 10, 20, 25, 30, 40, 41].map(|moment| window.contains(moment));
        assert_eq!(contained, [false, true, true, false, true, true, false]);
        assert!(window.touches(20, 20) && window.touches(0, 11) && !window.touches(21, 30));
    }
}
