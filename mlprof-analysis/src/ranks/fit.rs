//! The line through differences of two clocks.

use mlprof_report::ranks::median;

/// Difference of two clocks at a moment, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// By one of the clocks.
    pub(super) time: i64,
    /// To add to `time` for the other clock's time.
    pub(super) difference: i64,
    /// How wrong the difference may be, as far as that is known beforehand.
    pub(super) error: i64,
}

/// Difference of two clocks over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Time of one of the clocks, in nanoseconds.
    pub(super) time: i64,
    /// Difference at that time, in nanoseconds.
    pub(super) difference: i64,
    /// Growth of the difference per nanosecond; 0 where chance explains the differences as well.
    pub(super) drift: f64,
    /// Median distance of the points from the line, in nanoseconds.
    pub(super) error: i64,
}

/// Number of points, and how many times closer to the points a drifting line must be than a
/// constant one. A few points lie close to some line by chance.
const EVIDENCE: [(usize, i64); 2] = [(30, 2), (10, 5)];
/// Greatest drift of a clock. A quartz is off by up to 100 millionths, and NTP corrects by up to
/// 500.
const GREATEST_DRIFT: f64 = 500e-6;

impl Line {
    /// Returns the line through points, of which there is at least one, and sorts them by time.
    pub(super) fn through(points: &mut [Point]) -> Self {
        points.sort_unstable_by_key(|point| (point.time, point.difference));
        let time = points[points.len() / 2].time;
        let constant = Self::with(points, time, 0.0);
        let drifting = Self::with(points, time, drift(points));
        let (count, few) = (points.len(), drifting.error);
        let is_drift = EVIDENCE
            .iter()
            .any(|(fewest, times)| count >= *fewest && few.saturating_mul(*times) < constant.error);
        if is_drift && drifting.drift.abs() <= GREATEST_DRIFT { drifting } else { constant }
    }

    /// Returns the line of this drift that is in the middle of the points.
    fn with(points: &[Point], time: i64, drift: f64) -> Self {
        let left =
            |point: &Point| point.difference - ((point.time - time) as f64 * drift).round() as i64;
        let difference = median(points.iter().map(left).collect());
        let error = median(points.iter().map(|point| (left(point) - difference).abs()).collect());
        Self { time, difference, drift, error }
    }
}

/// Median growth between points that are half of all points apart.
fn drift(points: &[Point]) -> f64 {
    let half = points.len() / 2;
    let pairs = points.iter().zip(&points[half..]);
    let slope = |(one, other): (&Point, &Point)| {
        let passed = other.time - one.time;
        (passed > 0).then(|| (other.difference - one.difference) as f64 / passed as f64)
    };
    let mut slopes: Vec<f64> = pairs.filter_map(slope).collect();
    slopes.sort_unstable_by(f64::total_cmp);
    slopes.get(slopes.len() / 2).copied().unwrap_or(0.0)
}
