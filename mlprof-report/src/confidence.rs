//! Confidence limits of medians.

/// Minimum count of numbers for 99 % confidence. The smallest and the largest of eight numbers
/// enclose the median with this confidence.
pub const FEWEST: u64 = 8;
/// Number of standard errors on each side of the mean that enclose 99 % of a normal distribution.
pub const SURE: f64 = 2.576;

/// Returns the quantiles of `count` ordered numbers that enclose the true median with a confidence
/// of 99 %. Returns `None` for fewer than eight numbers.
pub fn median_shares(count: u64) -> Option<(f64, f64)> {
    // The count of numbers below the median follows a binomial distribution.
    let beyond = 0.5 * SURE / (count as f64).sqrt();
    (count >= FEWEST).then_some((0.5 - beyond, 0.5 + beyond))
}
