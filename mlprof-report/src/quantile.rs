//! Medians and quantiles with one common definition.

/// Returns the median. For an even number of values, it is the mean of the two middle ones, with
/// halves rounded up. Returns 0 without values.
pub fn median(values: Vec<i64>) -> i64 {
    quantile(values, 0.5)
}

/// Returns the quantile at `share` from 0 to 1. Returns 0 without values.
///
/// The quantile of n sorted values is at the position `share * (n - 1)`, from 0. Between two
/// positions it is interpolated linearly, as NumPy does by default (definition 7 of Hyndman and
/// Fan). The result is rounded to the nearest integer.
pub fn quantile(mut values: Vec<i64>, share: f64) -> i64 {
    let Some(last) = values.len().checked_sub(1) else { return 0 };
    let place = (share * last as f64).clamp(0.0, last as f64);
    let (_, below, above) = values.select_nth_unstable(place as usize);
    let below = *below;
    let above = above.iter().copied().min().unwrap_or(below);
    // The difference between two `i64` values can exceed 64 bits.
    let between = (i128::from(above) - i128::from(below)) as f64 * place.fract();
    (i128::from(below) + between.round() as i128) as i64 // between two `i64` values, so it fits
}

/// Returns the median. For an even number of values, it is the mean of the two middle ones. Returns
/// `None` without values.
pub(crate) fn median_of_floats(mut values: Vec<f64>) -> Option<f64> {
    let middle = values.len().checked_sub(1)? / 2;
    let is_even = values.len().is_multiple_of(2);
    let (_, below, above) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let below = *below;
    let next = above.iter().copied().min_by(f64::total_cmp).filter(|_| is_even);
    Some(next.map_or(below, |above| below + (above - below) / 2.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_in_the_middle_the_median_is_their_mean() {
        assert_eq!(median(Vec::new()), 0);
        assert_eq!(median(vec![7]), 7);
        assert_eq!(median(vec![9, 1, 5]), 5);
        assert_eq!(median(vec![2, 1, 9, 6]), 4);
        assert_eq!(median(vec![2, 1, 9, 5]), 4);
        assert_eq!(median(vec![-1, -2]), -1);
        assert_eq!(median(vec![i64::MAX, i64::MAX - 2]), i64::MAX - 1);
        assert_eq!(median(vec![i64::MIN, i64::MAX]), 0);
    }

    #[test]
    fn quantiles_are_interpolated_between_two_places() {
        let ten: Vec<i64> = (1..=10).map(|value| 100 * value).rev().collect();
        let found = [0.0, 0.25, 0.5, 0.9, 1.0].map(|share| quantile(ten.clone(), share));
        assert_eq!(found, [100, 325, 550, 910, 1_000]);
        assert_eq!(quantile(vec![5, 5, 5], 0.9), 5);
        assert_eq!(quantile(vec![1, 2], 7.0), 2);
    }

    #[test]
    fn medians_of_floats_have_the_same_definition() {
        assert_eq!(median_of_floats(Vec::new()), None);
        assert_eq!(median_of_floats(vec![3.0]), Some(3.0));
        assert_eq!(median_of_floats(vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median_of_floats(vec![4.0, 1.0, 3.0, 2.0]), Some(2.5));
    }
}
