//! How well numbers of which there are many are known.

/// Fewer numbers tell too little: of eight, the least and the greatest have the median between them with a
/// confidence of 99 %, of fewer with less.
pub const FEWEST: u64 = 8;
/// So many standard errors have 99 % of a normal distribution between them, to both sides.
pub const SURE: f64 = 2.576;

/// Between which shares of so many numbers, in their order, the median of any number of such is, with a
/// confidence of 99 %; `None` of fewer than eight.
pub fn median_shares(count: u64) -> Option<(f64, f64)> {
    // How many of so many fall short of the median is a matter of coins.
    let beyond = 0.5 * SURE / (count as f64).sqrt();
    (count >= FEWEST).then_some((0.5 - beyond, 0.5 + beyond))
}
