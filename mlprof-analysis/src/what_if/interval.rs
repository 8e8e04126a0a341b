//! Interval of a predicted gain from the variation between steps.

/// Number of resamples.
const RESAMPLES: usize = 1_000;

/// Returns the 2.5 % and 97.5 % quantiles of the resampled sum of the gains. Fewer than two steps
/// have no variation.
pub(super) fn bootstrap(gains: &[i64]) -> (i64, i64) {
    let sum: i64 = gains.iter().sum();
    if gains.len() < 2 {
        return (sum, sum);
    }
    // A fixed seed gives the same interval for the same trace.
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state % gains.len() as u64) as usize
    };
    let mut sums: Vec<i64> =
        (0..RESAMPLES).map(|_| (0..gains.len()).map(|_| gains[next()]).sum()).collect();
    sums.sort_unstable();
    (sums[RESAMPLES / 40], sums[RESAMPLES - 1 - RESAMPLES / 40])
}

#[cfg(test)]
mod tests {
    use super::bootstrap;

    #[test]
    fn equal_gains_have_no_spread() {
        assert_eq!(bootstrap(&[7, 7, 7]), (21, 21));
        assert_eq!(bootstrap(&[7]), (7, 7));
        assert_eq!(bootstrap(&[]), (0, 0));
    }

    #[test]
    fn the_interval_contains_the_sum_of_uneven_gains() {
        let gains: Vec<i64> = (0..40).map(|step| step % 5 * 100).collect();
        let (low, high) = bootstrap(&gains);
        let sum: i64 = gains.iter().sum();
        assert!(low < sum && sum < high, "{low} {sum} {high}");
        assert!(high - low < sum, "{low} {high}");
    }
}
