//! How much numbers of one run depend on those before them.

/// Steps that are taken to depend on each other by more would say nothing at all.
const MOST: f64 = 0.95;
/// What is taken of calls whose order nothing tells: as strongly as in the worst of the cases for
/// which the rate of false verdicts is known.
pub(super) const UNKNOWN: Dependence = Dependence(0.9);

/// The correlation of each number with the one before: 0 where they are independent, up to 0.95.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Dependence(f64);

impl Dependence {
    /// Of numbers in the order of time, or of several series that have it in common: each alone
    /// says little where it is short.
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

    /// The larger of the two.
    pub(super) fn max(self, other: Self) -> Self {
        Self(self.0.max(other.0))
    }

    /// So many times the standard error of as many independent numbers.
    pub(super) fn factor(self) -> f64 {
        ((1.0 + self.0) / (1.0 - self.0)).sqrt()
    }

    /// The degrees of freedom that the deviation of so many numbers has.
    pub(super) fn freedom(self, count: f64) -> f64 {
        let square = self.0 * self.0;
        (count * (1.0 - square) / (1.0 + square) - 1.0).max(1.0)
    }
}

/// Of ranks, so that a few numbers that are far off do not hide it. Few numbers have less of it
/// among themselves than the process that they are from, since their own mean is taken off: by (1 +
/// 4 r) / n.
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

/// The places of numbers in their order; equal ones share the mean of theirs.
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
    fn what_follows_its_neighbours_depends_on_them() {
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
