//! Medians of pairs, and how sure they are.

use super::WARM_UP;
use super::profilers::is_recorded;

/// What chance an interval leaves to each side.
const TAIL: f64 = 0.025;

/// A share (0.01 is 1 %) found in several rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The median over rounds.
    pub median: f64,
    /// Where the median of endless rounds lies with a probability of 95 % or more, whatever the
    /// distribution is; `None` for fewer than 6 rounds, which cannot say.
    pub interval: Option<(f64, f64)>,
}

impl Estimate {
    /// Of a figure per round.
    pub fn of(rounds: &[f64]) -> Self {
        let sorted = sorted(rounds);
        let interval =
            interval_rank(sorted.len()).map(|rank| (sorted[rank], sorted[sorted.len() - 1 - rank]));
        Self { median: median(rounds), interval }
    }
}

/// The middle value, or the mean of the two in the middle; not a number if there is none.
pub(super) fn median(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    (sorted[last / 2] + sorted[last.div_ceil(2)]) / 2.0
}

/// Between which values the middle half lies.
pub(super) fn interquartile_range(values: &[f64]) -> (f64, f64) {
    let sorted = sorted(values);
    let at = |share: f64| {
        let index = (sorted.len() as f64 * share) as usize;
        sorted.get(index).copied().unwrap_or(f64::NAN)
    };
    (at(0.25), at(0.75))
}

/// How much longer recorded steps are than their neighbours. `steps` follow on the warm-up.
pub(super) fn neighbours(steps: &[f64]) -> f64 {
    let ratios = steps.chunks_exact(2).enumerate().map(|(index, pair)| {
        let first_is_recorded = is_recorded((WARM_UP + 2 * index) as u64);
        let (with, without) = if first_is_recorded { (0, 1) } else { (1, 0) };
        (pair[with] / pair[without]).ln()
    });
    median(&ratios.collect::<Vec<_>>()).exp_m1()
}

/// How much longer the steps of one epoch are than the same steps of another.
pub fn paired(with: &[f64], without: &[f64]) -> f64 {
    let ratios = with.iter().zip(without).map(|(with, without)| (with / without).ln());
    median(&ratios.collect::<Vec<_>>()).exp_m1()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

/// How many values from either end of `count` sorted ones the interval begins. How many of them
/// are below the true median is a matter of tossing coins.
fn interval_rank(count: usize) -> Option<usize> {
    // Logarithms: half to the power of 2000 is no number any more.
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
        // Ranks from 1 in tables for 95 %: 6 → 1, 10 → 2, 20 → 6, 25 → 8, 50 → 18, 100 → 40.
        let ranks = [1, 5, 6, 10, 20, 25, 50, 100].map(interval_rank);
        let expected = [None, None, Some(0), Some(1), Some(5), Some(7), Some(17), Some(39)];
        assert_eq!(ranks, expected);
        let many = interval_rank(5000).expect("enough");
        // As the normal distribution has it: 2500 - 0.98 · √5000.
        assert!((2429..2432).contains(&many), "{many}");
    }

    #[test]
    fn an_estimate_is_a_median_and_its_interval() {
        let estimate = Estimate::of(&[5.0, 1.0, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(estimate, Estimate { median: 3.5, interval: Some((1.0, 6.0)) });
        assert_eq!(Estimate::of(&[1.0, 2.0]), Estimate { median: 1.5, interval: None });
    }

    /// Steps that are long now and then, as on a busy machine.
    fn noisy_steps(random: &mut SplitMix, count: usize) -> Vec<f64> {
        let mut uniform = || (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
        (0..count).map(|_| 100.0 - 10.0 * (1.0 - uniform()).ln()).collect()
    }

    /// Adds to the steps that are recorded.
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
        // A machine that becomes slower all the time.
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
        // 95.7 % of 200 are 191; three standard deviations around that.
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
