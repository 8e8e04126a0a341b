//! Line fit through the differences of two clocks.

use mlprof_report::ranks::median;

/// Difference of two clocks at a moment, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Point {
    /// Time of the first clock in nanoseconds.
    pub(super) time: i64,
    /// Nanoseconds to add to `time` for the time of the second clock.
    pub(super) difference: i64,
    /// Known uncertainty of the difference in nanoseconds.
    pub(super) error: i64,
}

/// Difference of two clocks as a linear function of time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Line {
    /// Reference time of the first clock in nanoseconds.
    pub(super) time: i64,
    /// Difference at the reference time in nanoseconds.
    pub(super) difference: i64,
    /// Growth of the difference per nanosecond. 0 if chance can explain the observed differences.
    pub(super) drift: f64,
    /// Median distance of the points from the line in nanoseconds.
    pub(super) error: i64,
}

/// Minimum number of points, and the factor by which a drifting line must be closer to them than a
/// constant one. A few points can be close to some line by chance.
const EVIDENCE: [(usize, i64); 2] = [(30, 2), (10, 5)];
/// Largest plausible drift of a clock. A quartz deviates by up to 100 millionths, and NTP corrects
/// by up to 500.
const GREATEST_DRIFT: f64 = 500e-6;

impl Line {
    /// Sorts the points by time and fits a line through them. At least one point is required.
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

    /// Returns the line with this drift through the median of the points.
    fn with(points: &[Point], time: i64, drift: f64) -> Self {
        let left =
            |point: &Point| point.difference - ((point.time - time) as f64 * drift).round() as i64;
        let difference = median(points.iter().map(left).collect());
        let error = median(points.iter().map(|point| (left(point) - difference).abs()).collect());
        Self { time, difference, drift, error }
    }
}

/// Returns the median drift between points that are half of the list apart.
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
