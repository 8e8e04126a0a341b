//! Serial dependence: how strongly measurements of one run correlate with the ones before them.

/// Upper limit of the correlation. Steps with a higher correlation would carry almost no
/// information.
const MOST: f64 = 0.95;
/// Assumed correlation of calls with an unknown order. It is as strong as in the worst case with a
/// known false-alarm rate.
pub(super) const UNKNOWN: Dependence = Dependence(0.9);

/// Correlation of each number with the one before it, from 0 (independent) to 0.95.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Dependence(f64);

impl Dependence {
    /// Estimates the dependence of one or several series, each in chronological order. Combining
    /// series improves the estimate, because a short series alone is unreliable.
    pub(super) fn of<'series>(series: impl IntoIterator<Item = &'series [f64]>) -> Self {
        let (mut sum, mut weight) = (0.0, 0.0);
        for numbers in series {
            if let Some(correlation) = correlation(numbers) {
                let count = numbers.len() as f64;
                sum += count * correlation;
                weight += count;
            }
        }
        Self(if weight > 0.0 { (sum / weight).clamp(0.0, MOST) } else { 0.0 })
    }

    /// Returns the larger dependence.
    pub(super) fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// Returns the factor by which dependence widens the standard error of independent numbers.
    pub(super) fn factor(self) -> f64 {
        ((1.0 + self.0) / (1.0 - self.0)).sqrt()
    }

    /// Returns the degrees of freedom of the standard deviation of `count` numbers.
    pub(super) fn freedom(self, count: f64) -> f64 {
        let square = self.0 * self.0;
        (count * (1.0 - square) / (1.0 + square) - 1.0).max(1.0)
    }
}

/// Returns the lag-1 correlation of the ranks, so that a few outliers do not hide it. A short
/// series underestimates the correlation, because its own mean is subtracted. The result is
/// corrected for this bias of (1 + 4 r) / n.
fn correlation(numbers: &[f64]) -> Option<f64> {
    let ranks = ranks(numbers);
    let count = numbers.len() as f64;
    let mean = (count - 1.0) / 2.0;
    let sum: f64 = ranks.iter().map(|rank| (rank - mean).powi(2)).sum();
    if numbers.len() < 2 || sum <= 0.0 {
        return None;
    }
    let products: f64 = ranks.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum();
    Some((products / sum + 1.0 / count) / (1.0 - 4.0 / count).max(0.5))
}

/// Returns the rank of each number. Equal numbers share the mean of their ranks.
fn ranks(numbers: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..numbers.len()).collect();
    order.sort_by(|one, other| numbers[*one].total_cmp(&numbers[*other]));
    let mut ranks = vec![0.0; numbers.len()];
    let mut first = 0;
    for equal in order.chunk_by(|one, other| numbers[*one] == numbers[*other]) {
        let rank = first as f64 + (equal.len() - 1) as f64 / 2.0;
        equal.iter().for_each(|place| ranks[*place] = rank);
        first += equal.len();
    }
    ranks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_similar_to_their_neighbours_are_dependent() {
        let alternating: Vec<f64> = (0..100).map(|step| f64::from(step % 2)).collect();
        assert_eq!(Dependence::of([&alternating[..]]), Dependence(0.0));
        let growing: Vec<f64> = (0..100).map(f64::from).collect();
        assert_eq!(Dependence::of([&growing[..]]), Dependence(MOST));
        assert!((Dependence(0.5).factor() - 3.0_f64.sqrt()).abs() < 1e-12);
        assert_eq!(Dependence(0.0).freedom(100.0), 99.0);
        assert_eq!(
            Dependence::of([&[1.0; 50][..], &[]]),
            Dependence(0.0),
            "equal ones say nothing"
        );
        assert_eq!(ranks(&[3.0, 1.0, 3.0, 0.0]), [2.5, 1.0, 2.5, 0.0]);
    }
}
