//! How far two tensors are apart.

use profiler_report::numerics::{RecordedTensor, TensorStatistics};
use serde::Serialize;

/// How far two tensors are apart. From what is recorded of them: statistics, and a sample of their numbers.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distance {
    /// The most that one of their statistics, or their samples, are apart, as a part of their size: 0 for what is the same,
    /// infinite, in JSON `null`, where one has NaN and the other has not.
    pub relative: f64,
    /// Of the samples: the norm of their difference, as a part of the first's.
    pub relative_l2: Option<f64>,
    /// Of the samples: signal to quantisation noise, in decibels; `None` where they are the same, or not known.
    pub sqnr: Option<f64>,
    /// Of the samples: the cosine of the angle between them.
    pub cosine: Option<f64>,
    /// Of the samples: by how many numbers that an `f32` can be two of them are apart, at the most.
    pub most_ulps: Option<u64>,
}

impl Distance {
    /// Of two tensors at one place.
    pub fn of(before: &RecordedTensor, after: &RecordedTensor) -> Self {
        let mut relative = of_statistics(&before.statistics, &after.statistics);
        let same_places = before.shape == after.shape && before.sample.len() == after.sample.len();
        let sample = || {
            let pairs = before.sample.iter().zip(&after.sample);
            pairs.filter_map(|(before, after)| Some(((*before)?, (*after)?)))
        };
        if !same_places || sample().next().is_none() {
            return Self { relative, relative_l2: None, sqnr: None, cosine: None, most_ulps: None };
        }
        let sum = |of: fn((f64, f64)) -> f64| sample().map(of).sum::<f64>();
        let signal = sum(|(before, _)| before * before).sqrt();
        let other = sum(|(_, after)| after * after).sqrt();
        let apart = sum(|(before, after)| (before - after).powi(2)).sqrt();
        let relative_l2 = if apart == 0.0 { 0.0 } else { apart / signal.max(f64::MIN_POSITIVE) };
        // A sample of few numbers may be nearly 0 where the tensor is not.
        let size =
            signal.max(before.statistics.root_mean_square() * (before.sample.len() as f64).sqrt());
        relative =
            relative.max(if apart == 0.0 { 0.0 } else { apart / size.max(f64::MIN_POSITIVE) });
        Self {
            relative,
            relative_l2: Some(relative_l2),
            sqnr: (apart > 0.0 && signal > 0.0).then(|| 20.0 * (signal / apart).log10()),
            cosine: (signal > 0.0 && other > 0.0)
                .then(|| sum(|(before, after)| before * after) / (signal * other)),
            most_ulps: sample().map(|(before, after)| ulps(before as f32, after as f32)).max(),
        }
    }
}

/// How many numbers of 32 bits lie between two, and one.
fn ulps(one: f32, other: f32) -> u64 {
    let place = |number: f32| {
        let bits = i64::from(number.to_bits() & 0x7fff_ffff);
        if number.is_sign_negative() { -bits } else { bits }
    };
    place(one).abs_diff(place(other))
}

/// The most that mean, norms and extremes are apart, as a part of their size.
pub(super) fn of_statistics(before: &TensorStatistics, after: &TensorStatistics) -> f64 {
    if before.nans != after.nans || before.infinities != after.infinities {
        return f64::INFINITY;
    }
    let size = before.root_mean_square().max(after.root_mean_square());
    let part = |before: f64, after: f64, size: f64| match before == after {
        true => 0.0,
        false => (before - after).abs() / size.max(f64::MIN_POSITIVE),
    };
    let known = |number: Option<f64>| number.unwrap_or(0.0);
    let largest = |statistics: &TensorStatistics| {
        known(statistics.maximum).abs().max(known(statistics.minimum).abs())
    };
    let extreme = largest(before).max(largest(after));
    let mean_size =
        |statistics: &TensorStatistics| statistics.l1_norm / statistics.finite().max(1) as f64;
    let parts = [
        part(known(before.mean), known(after.mean), size),
        part(mean_size(before), mean_size(after), size),
        part(before.root_mean_square(), after.root_mean_square(), size),
        part(known(before.minimum), known(after.minimum), extreme),
        part(known(before.maximum), known(after.maximum), extreme),
    ];
    parts.into_iter().fold(0.0, f64::max)
}
