//! Medians of paired measurements with confidence intervals.

use super::WARM_UP;
use super::profilers::is_recorded;

/// Probability outside the interval on each side.
const TAIL: f64 = 0.025;

/// A relative cost (0.01 is 1 %) estimated from several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// Median over the rounds.
    pub median: f64,
    /// Confidence interval of the median with a probability of at least 95 %, for any distribution.
    /// `None` for fewer than 6 rounds, which are not sufficient.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Computes the estimate from one value per round.
    pub fn of(rounds: &[f64]) -> Self {
        let sorted = sorted(rounds);
        let interval =
            interval_rank(sorted.len()).map(|rank| (sorted[rank], sorted[sorted.len() - 1 - rank]));
        Self { median: median(rounds), interval }
    }
}

/// Returns the median, or NaN without values.
pub(super) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0
}

/// Returns the lower and upper quartile.
pub(super) fn interquartile_range(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    let at = |share: f64| {
        let index = (sorted.len() as f64 * share) as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    (at(0.25), at(0.75))
}

/// Returns how much longer recorded steps are than their neighbours. `steps` begin after the
/// warm-up.
pub(super) fn neighbours(steps: &[f64]) -> f64 {
    let ratios = steps.chunks_exact(2).enumerate().map(|(index, pair)| {
        let first_is_recorded = is_recorded((WARM_UP + 2 * index) as u64);
        let (with, without) = if first_is_recorded { (0, 1) } else { (1, 0) };
        (pair[with] / pair[without]).ln()
    });
    median(&ratios.collect::<Vec<_>>()).exp_m1()
}

/// Returns how much longer the steps of one epoch are than the same steps of another.
pub fn paired(with: &[f64], without: &[f64]) -> f64 {
    let ratios = with.iter().zip(without).map(|(with, without)| (with / without).ln());
    median(&ratios.collect::<Vec<_>>()).exp_m1()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// Returns the rank, from either end of `count` sorted values, at which the interval begins. The
/// number of values below the true median has a binomial distribution.
fn interval_rank(count: usize) -> Option<usize> {
    // The computation uses logarithms, because 0.5 to the power of 2000 underflows.
    let mut logarithm = count as f64 * 0.5f64.ln();
    let (mut below, mut rank) = (logarithm.exp(), None);
    let mut heads = 0;
    while below <= TAIL && heads < count {
        rank = Some(heads);
        logarithm += ((count - heads) as f64 / (heads + 1) as f64).ln();
        below += logarithm.exp();
        heads += 1;
    }
    rank
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::SplitMix;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 9.0]), 3.0);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
        let (low, high) = interquartile_range(&[8.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);
        assert_eq!((low, high), (3.0, 7.0));
    }

    #[test]
    fn interval_ranks_are_those_of_the_tables_for_the_sign_test() {
        // Published 95 % tables count ranks from 1: 6 → 1, 10 → 2, 20 → 6, 25 → 8, 50 → 18, 100
        // → 40.
        let ranks = [1, 5, 6, 10, 20, 25, 50, 100].map(interval_rank);
        let expected = [None, None, Some(0), Some(1), Some(5), Some(7), Some(17), Some(39)];
        assert_eq!(ranks, expected);
        let many = interval_rank(5000).expect("enough");
        // The normal approximation gives 2500 - 0.98 · √5000.
        assert!((2429..2432).contains(&many), "{many}");
    }

    #[test]
    fn an_estimate_is_a_median_and_its_interval() {
        let estimate = Estimate::of(&[5.0, 1.0, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(estimate, Estimate { median: 3.5, interval: Some((1.0, 6.0)) });
        assert_eq!(Estimate::of(&[1.0, 2.0]), Estimate { median: 1.5, interval: None });
    }

    /// Returns step lengths with occasional outliers, as on a loaded machine.
    fn noisy_steps(random: &mut SplitMix, count: usize) -> Vec<f64> {
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (0..count).map(|_| 100.0 - 10.0 * (1.0 - uniform()).ln()).collect()
    }

    /// Multiplies the recorded steps by `factor`.
    fn record(steps: &mut [f64], factor: f64) {
        for (index, step) in steps.iter_mut().enumerate() {
            if is_recorded((WARM_UP + index) as u64) {
                *step *= factor;
            }
        }
    }

    #[test]
    fn neighbours_find_what_was_added_to_recorded_steps() {
        let mut steps = vec![100.0; 9];
        record(&mut steps, 1.02);
        assert!((neighbours(&steps) - 0.02).abs() < 1e-12);
        // The machine becomes steadily slower.
        let mut steps: Vec<f64> = (0..40).map(|step| 100.0 + f64::from(step)).collect();
        record(&mut steps, 1.05);
        assert!((neighbours(&steps) - 0.05).abs() < 2e-3, "{}", neighbours(&steps));
    }

    #[test]
    fn skewed_noise_adds_nothing_and_its_interval_says_so() {
        let mut random = SplitMix::new(1);
        let (mut covered, runs) = (0, 200);
        for _ in 0..runs {
            let rounds: Vec<f64> = (0..30)
                .map(|_| {
                    let mut steps = noisy_steps(&mut random, 40);
                    record(&mut steps, 1.01);
                    neighbours(&steps)
                })
                .collect();
            let (low, high) = Estimate::of(&rounds).interval.expect("enough rounds");
            covered += u32::from((low..=high).contains(&0.01));
        }
        // 95.7 % of 200 is 191. The limits are three standard deviations away.
        assert!((182..=200).contains(&covered), "{covered} of {runs} intervals hold the truth");
    }

    #[test]
    fn epochs_are_compared_step_by_step() {
        let without = [100.0, 200.0, 400.0];
        assert!((paired(&[110.0, 220.0, 440.0], &without) - 0.1).abs() < 1e-12);
        assert!((paired(&[50.0, 220.0, 440.0], &without) - 0.1).abs() < 1e-12, "the median");
        assert_eq!(paired(&without, &without), 0.0);
    }
}
