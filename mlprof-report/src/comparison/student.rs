//! Quantiles of Student's t distribution.

use std::f64::consts::PI;

/// Upper limit of the degrees of freedom. Higher values do not change the result.
const MOST_FREEDOM: f64 = 1e6;

/// Returns the number that Student's t exceeds with probability `tail` (0 to 0.5). The degrees of
/// freedom need not be an integer.
pub(super) fn quantile(tail: f64, freedom: f64) -> f64 {
    let freedom = freedom.clamp(1.0, MOST_FREEDOM);
    let (mut low, mut high) = (0.0, 1.0);
    while beyond(high, freedom) > tail && high < 1e12 {
        (low, high) = (high, 2.0 * high);
    }
    // Each iteration halves the interval. After 50 iterations the remaining error is negligible.
    for _ in 0..50 {
        let middle = 0.5 * (low + high);
        match beyond(middle, freedom) > tail {
            true => low = middle,
            false => high = middle,
        }
    }
    high
}

/// Returns the probability that t exceeds a number of 0 or more.
fn beyond(t: f64, freedom: f64) -> f64 {
    0.5 * incomplete_beta(0.5 * freedom, 0.5, freedom / (freedom + t * t))
}

/// Returns the regularized incomplete beta function for x between 0 and 1.
fn incomplete_beta(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 || x >= 1.0 {
        return x.clamp(0.0, 1.0);
    }
    let factor = ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln();
    // The continued fraction converges fast on this side of the mean.
    match x < (a + 1.0) / (a + b + 2.0) {
        true => factor.exp() * continued_fraction(a, b, x) / a,
        false => 1.0 - factor.exp() * continued_fraction(b, a, 1.0 - x) / b,
    }
}

/// Evaluates the continued fraction of the incomplete beta function by Lentz's method.
fn continued_fraction(a: f64, b: f64, x: f64) -> f64 {
    let not_zero = |number: f64| if number.abs() < 1e-300 { 1e-300 } else { number };
    let mut above = 1.0;
    let mut below = 1.0 / not_zero(1.0 - (a + b) * x / (a + 1.0));
    let mut product = below;
    for index in 1..500 {
        let m = f64::from(index);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before = product;
        for term in [even, odd] {
            below = 1.0 / not_zero(1.0 + term * below);
            above = not_zero(1.0 + term / above);
            product *= above * below;
        }
        if (product / before - 1.0).abs() < 1e-13 {
            break;
        }
    }
    product
}

/// Returns the logarithm of the gamma function for a number above 0, by Stirling's series.
fn ln_gamma(mut x: f64) -> f64 {
    let mut shift = 0.0;
    while x < 10.0 {
        shift -= x.ln();
        x += 1.0;
    }
    let square = 1.0 / (x * x);
    let series = (1.0 / 12.0 - square * (1.0 / 360.0 - square / 1260.0)) / x;
    shift + (x - 0.5) * x.ln() - x + 0.5 * (2.0 * PI).ln() + series
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the quantiles with printed tables.
    #[test]
    fn quantiles_are_those_of_tables() {
        for (tail, freedom, expected) in [
            (0.025, 1.0, 12.706),
            (0.005, 2.0, 9.925),
            (0.025, 4.0, 2.776),
            (0.0005, 4.0, 8.610),
            (0.005, 30.0, 2.750),
            (0.005, 1e9, 2.576),
            (0.5, 7.0, 0.0),
        ] {
            let found = quantile(tail, freedom);
            assert!((found - expected).abs() < 6e-4, "{tail} {freedom}: {found}");
        }
        assert!(quantile(1e-5, 3.5) > quantile(1e-5, 4.0));
    }
}
