//! The time that tables are about.

use super::union::Union;

/// The time of all steps, or of the whole trace where it has no steps. Every table about threads
/// and devices is about this window.
///
/// A gap between two steps is part of it unless recording paused there, as it does during a
/// validation within an epoch. Times are nanoseconds of the trace's own time.
#[derive(Debug, Clone)]
pub(crate) struct Window(Union);

impl Window {
    pub(crate) fn new(parts: Vec<(i64, i64)>) -> Self {
        Self(Union::of(parts))
    }

    /// Its parts in the order of time, none touching another.
    pub(crate) fn parts(&self) -> &[(i64, i64)] {
        self.0.parts()
    }

    pub(crate) fn union(&self) -> &Union {
        &self.0
    }

    /// Its length without pauses.
    pub(crate) fn length(&self) -> i64 {
        self.0.length()
    }

    /// Its first and its last moment.
    pub(crate) fn span(&self) -> (i64, i64) {
        self.0.span().unwrap_or((0, 0))
    }

    /// How much of the time from `start` to `end` it has; nothing if that is backward.
    pub(crate) fn clip(&self, start: i64, end: i64) -> i64 {
        if end <= start {
            return 0;
        }
        let parts = self.parts();
        let first = parts.partition_point(|part| part.1 <= start);
        let parts = parts[first..].iter().take_while(|part| part.0 < end);
        parts.map(|part| part.1.min(end) - part.0.max(start)).sum()
    }

    /// Whether it has this moment; its ends are in it.
    pub(crate) fn contains(&self, moment: i64) -> bool {
        let parts = self.parts();
        let first = parts.partition_point(|part| part.1 < moment);
        parts.get(first).is_some_and(|part| part.0 <= moment)
    }

    /// Whether it has any of the time from `start` to `end`.
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
