//! Distance between two tensors, and proof of their equality.

use mlprof_report::numerics::{RecordedTensor, TensorStatistics};
use serde::Serialize;

use super::element::ElementType;

/// Distance between two tensors, computed from their recorded statistics, samples and sketches.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Distance {
    /// Largest relative distance of the tensors' statistics, samples or sketches. It is 0 for equal
    /// records. It is infinite (`null` in JSON) if the shapes differ, or if one tensor has NaN or
    /// an infinite number where the other has not.
    pub relative: f64,
    /// Relative L2 distance of the samples: the norm of their difference divided by the norm of the
    /// first sample.
    pub relative_l2: Option<f64>,
    /// Relative L2 distance of all numbers, estimated from the sketches: the norm of the difference
    /// divided by the larger norm. `None` if a record has no sketch, for example for a small
    /// tensor.
    pub whole_l2: Option<f64>,
    /// Signal-to-quantisation-noise ratio of the samples in decibels. `None` if they are equal or
    /// unknown.
    pub sqnr: Option<f64>,
    /// Cosine of the angle between the samples.
    pub cosine: Option<f64>,
    /// Largest distance of two sample numbers in units in the last place, counted in the coarser of
    /// the two element types.
    pub most_ulps: Option<u64>,
}

/// Bitwise equality of two tensors, as far as the records show it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Equality {
    /// All numbers are equal.
    Proven,
    /// At least one number differs.
    Refuted,
    /// Not all numbers are recorded, and the recorded ones are equal.
    Unknown,
}

impl Distance {
    /// Returns the distance between two tensors at one place.
    pub fn of(before: &RecordedTensor, after: &RecordedTensor) -> Self {
        let relative = match have_same_shape(before, after) {
            true => of_statistics(&before.statistics, &after.statistics),
            false => f64::INFINITY,
        };
        let mut distance = Self {
            relative,
            relative_l2: None,
            whole_l2: None,
            sqnr: None,
            cosine: None,
            most_ulps: None,
        };
        if have_same_shape(before, after) {
            distance.add_samples(before, after);
            distance.add_sketches(before, after);
        }
        distance
    }

    fn add_samples(&mut self, before: &RecordedTensor, after: &RecordedTensor) {
        if before.sample.len() != after.sample.len() {
            return;
        }
        let both = || before.sample.iter().copied().zip(after.sample.iter().copied());
        if both().any(|(one, other)| one != other && contradict(one, other)) {
            self.relative = f64::INFINITY;
        }
        let finite = || {
            let known = both().filter_map(|(one, other)| Some((one?, other?)));
            known.filter(|(one, other)| one.is_finite() && other.is_finite())
        };
        if finite().next().is_none() {
            return;
        }
        // The scale keeps the squares from overflowing.
        let scale = finite().map(|(one, other)| one.abs().max(other.abs())).fold(0.0, f64::max);
        let scale = if scale > 0.0 { scale } else { 1.0 };
        let sum = |of: fn((f64, f64)) -> f64| {
            finite().map(|(one, other)| of((one / scale, other / scale))).sum::<f64>()
        };
        let signal = sum(|(before, _)| before * before).sqrt();
        let other = sum(|(_, after)| after * after).sqrt();
        let apart = sum(|(before, after)| (before - after).powi(2)).sqrt();
        let part = |size: f64| if apart == 0.0 { 0.0 } else { apart / size.max(f64::MIN_POSITIVE) };
        // The sample can be nearly 0 even if the tensor is not, so the tensor's root mean square
        // counts too.
        let usual = before.statistics.root_mean_square() * (before.sample.len() as f64).sqrt();
        let size = if usual.is_finite() { signal.max(usual / scale) } else { signal };
        self.relative = self.relative.max(part(size));
        self.relative_l2 = Some(part(signal));
        self.sqnr = (apart > 0.0 && signal > 0.0).then(|| 20.0 * (signal / apart).log10());
        self.cosine = (signal > 0.0 && other > 0.0)
            .then(|| sum(|(before, after)| before * after) / (signal * other));
        let kind = element_type(before, after);
        self.most_ulps = finite().filter_map(|(one, other)| kind.ulps(one, other)).max();
    }

    fn add_sketches(&mut self, before: &RecordedTensor, after: &RecordedTensor) {
        let (one, other) = (&before.sketch, &after.sketch);
        if one.is_empty() || one.len() != other.len() {
            return;
        }
        let apart = || one.iter().zip(other).map(|(one, other)| (one - other).abs());
        let largest = apart().fold(0.0, f64::max);
        if largest == 0.0 {
            self.whole_l2 = Some(0.0);
            return;
        }
        let squares = apart().map(|apart| (apart / largest).powi(2)).sum::<f64>();
        let (before, after) = (&before.statistics, &after.statistics);
        let part = |apart: f64, size: f64| match apart / size.max(f64::MIN_POSITIVE) {
            part if part.is_nan() => f64::INFINITY,
            part => part,
        };
        let norm = |it: &TensorStatistics| match it.l2_norm.is_finite() {
            true => it.l2_norm,
            false => magnitude(it) * (it.finite() as f64).sqrt(),
        };
        let whole = part(largest * squares.sqrt(), norm(before).max(norm(after)));
        // If most sums are equal, only a few numbers differ. Each of them counts by its own size,
        // because it would be lost in the norm of all numbers.
        let same = apart().filter(|apart| *apart == 0.0).count();
        let few = match 2 * same >= one.len() {
            true => part(largest, magnitude(before).max(magnitude(after))),
            false => 0.0,
        };
        self.whole_l2 = Some(whole);
        self.relative = self.relative.max(whole).max(few);
    }
}

/// Returns the coarser of the two element types.
fn element_type(before: &RecordedTensor, after: &RecordedTensor) -> ElementType {
    ElementType::of(&before.element_type).coarser(ElementType::of(&after.element_type))
}

/// Returns `true` if the shapes are equal except for dimensions of size 1. Frameworks store scalars
/// as `[]` or as `[1]`.
pub(super) fn have_same_shape(before: &RecordedTensor, after: &RecordedTensor) -> bool {
    let sides = |tensor: &RecordedTensor| -> Vec<u64> {
        tensor.shape.iter().copied().filter(|side| *side != 1).collect()
    };
    sides(before) == sides(after)
}

/// Returns `true` if two sample numbers certainly differ. `None` is a number that is only known to
/// be not finite.
fn contradict(one: Option<f64>, other: Option<f64>) -> bool {
    let is_finite = |number: Option<f64>| number.is_some_and(f64::is_finite);
    match (one, other) {
        _ if is_finite(one) != is_finite(other) => true,
        (Some(one), Some(other)) if !one.is_finite() => one != other,
        _ => false,
    }
}

/// Returns whether two tensors at one place are proven to be equal or different.
pub(super) fn equality(before: &RecordedTensor, after: &RecordedTensor) -> Equality {
    if before.shape.iter().product::<u64>() != after.shape.iter().product::<u64>() {
        return Equality::Refuted;
    }
    if let (Some(one), Some(other)) = (&before.hash, &after.hash) {
        return if one == other { Equality::Proven } else { Equality::Refuted };
    }
    // Sums computed on a device are rounded, so they prove nothing.
    let exact = |it: &TensorStatistics| {
        ([it.count, it.nans, it.infinities, it.zeros], it.minimum, it.maximum)
    };
    let are_samples_other = has_same_sample(before, after) == Some(false);
    if exact(&before.statistics) != exact(&after.statistics) || are_samples_other {
        return Equality::Refuted;
    }
    let is_known = |it: &RecordedTensor| is_whole(it) || it.statistics.nans == it.statistics.count;
    match is_known(before) && is_known(after) && knows_not_finite(before, after) {
        true => Equality::Proven,
        false => Equality::Unknown,
    }
}

/// Returns whether the samples have equal numbers. `None` if they cannot be compared.
pub(super) fn has_same_sample(before: &RecordedTensor, after: &RecordedTensor) -> Option<bool> {
    let is_comparable = !before.sample.is_empty() && before.sample.len() == after.sample.len();
    let mut both = before.sample.iter().copied().zip(after.sample.iter().copied());
    let is_other = |(one, other): (Option<f64>, Option<f64>)| {
        one != other && (contradict(one, other) || one.is_some() && other.is_some())
    };
    is_comparable.then(|| !both.any(is_other))
}

/// Returns `true` if the sample contains all numbers of the tensor.
pub(super) fn is_whole(tensor: &RecordedTensor) -> bool {
    tensor.sample.len() as u64 == tensor.statistics.count
}

/// Returns `true` if both records know the positions of NaN and of infinite numbers with their
/// signs. If the positions differed, the samples would contradict each other.
fn knows_not_finite(before: &RecordedTensor, after: &RecordedTensor) -> bool {
    let knows = |tensor: &RecordedTensor| {
        let TensorStatistics { count, nans, infinities, .. } = tensor.statistics;
        // In an old record, `None` can also be an infinite number.
        let is_known = |number: &Option<f64>| number.is_some() || infinities == 0;
        nans == count || is_whole(tensor) && tensor.sample.iter().all(is_known)
    };
    knows(before) && knows(after)
}

/// Returns whether NaN, positive and negative infinity are at the same positions. `None` if the
/// records do not show it.
pub(super) fn has_same_not_finite(before: &RecordedTensor, after: &RecordedTensor) -> Option<bool> {
    let counts = |it: &RecordedTensor| (it.statistics.nans, it.statistics.infinities);
    match (&before.not_finite_hash, &after.not_finite_hash) {
        _ if counts(before) != counts(after) => Some(false),
        _ if before.statistics.is_finite() => Some(true),
        (Some(one), Some(other)) => Some(one == other),
        _ if equality(before, after) == Equality::Proven => Some(true),
        _ => knows_not_finite(before, after).then_some(true),
    }
}

/// Returns the largest magnitude of the finite numbers.
fn magnitude(statistics: &TensorStatistics) -> f64 {
    let known = |number: Option<f64>| number.unwrap_or(0.0).abs();
    known(statistics.maximum).max(known(statistics.minimum))
}

/// Returns the largest relative distance of means, norms and extremes.
pub(super) fn of_statistics(before: &TensorStatistics, after: &TensorStatistics) -> f64 {
    if before.nans != after.nans || before.infinities != after.infinities {
        return f64::INFINITY;
    }
    let part = |before: f64, after: f64, size: f64| match before == after {
        true => 0.0,
        false => (before - after).abs() / size.max(f64::MIN_POSITIVE),
    };
    let known = |number: Option<f64>| number.unwrap_or(0.0);
    let extreme = magnitude(before).max(magnitude(after));
    let size = before.root_mean_square().max(after.root_mean_square());
    let size = if size.is_finite() { size } else { extreme };
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
