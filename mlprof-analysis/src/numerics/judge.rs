//! Verdict on each pair of tensors.

use std::collections::HashMap;

use mlprof_events::TensorRole;
use mlprof_report::numerics::RecordedTensor;
use serde::Serialize;

use super::distance::{self, Distance, Equality};
use super::element::ElementType;
use super::pairs::{Pair, pairs};
use super::{NumericsRecord, path};

/// Kind of difference between two tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// The shapes differ. Dimensions of size 1 do not count.
    Shape,
    /// One tensor has NaN or an infinite number where the other has not, or an infinite number of
    /// another sign.
    NotFinite,
    /// Both have equally many NaN and infinite numbers, but the records do not show whether they
    /// are the same ones at the same positions.
    UnknownNotFinite,
    /// The numbers differ by more than rounding.
    Numbers,
    /// The hashes differ although the samples are equal. Numbers outside the samples differ by an
    /// unknown amount.
    Unsampled,
}

/// Verdict on a pair.
pub(super) struct Judged {
    pub(super) distance: Distance,
    pub(super) difference: Option<DifferenceKind>,
    pub(super) input: Option<f64>,
    pub(super) inputs_agree: bool,
    equality: Equality,
    /// `true` if the distance covers all numbers.
    is_whole: bool,
}

/// Factor by which a distance must exceed the noise between two reference runs to count as a
/// difference.
const BEYOND_NOISE: f64 = 3.0;

/// Relative rounding error of sums over equal integers on devices that compute with 32 bits.
const ROUNDING_OF_SUMS: f64 = 1e-6;

impl Judged {
    pub(super) fn of(pair: &Pair<'_>, noise: &Noise, tolerance: Option<f64>) -> Self {
        let (before, after) = (pair.before, pair.after);
        let rounding = |tensor: &RecordedTensor| ElementType::of(&tensor.element_type).rounding();
        let least = tolerance.unwrap_or_else(|| rounding(before).max(rounding(after)));
        let noise = noise.at(before);
        let allowed = least.max(BEYOND_NOISE * noise.distance);
        let distance = Distance::of(before, after);
        let equality = distance::equality(before, after);
        let input = match (&before.input, &after.input) {
            (Some(before), Some(after)) => Some(distance::of_statistics(before, after)),
            _ => None,
        };
        let is_sampled_whole = distance::is_whole(before) && distance::is_whole(after);
        let not_finite = distance::has_same_not_finite(before, after);
        // Sums computed on a device are rounded, even sums over integers.
        let measured = if allowed == 0.0 { ROUNDING_OF_SUMS } else { allowed };
        let difference = if !distance::have_same_shape(before, after) {
            Some(DifferenceKind::Shape)
        } else if equality == Equality::Proven {
            None
        } else if not_finite == Some(false) || distance.relative == f64::INFINITY {
            Some(DifferenceKind::NotFinite)
        } else if distance.relative > measured
            || allowed == 0.0 && equality == Equality::Refuted && !noise.varies
        {
            Some(DifferenceKind::Numbers)
        } else if not_finite.is_none() {
            Some(DifferenceKind::UnknownNotFinite)
        } else {
            let is_unsampled = !noise.varies && is_unsampled(pair, &distance);
            is_unsampled.then_some(DifferenceKind::Unsampled)
        };
        Self {
            distance,
            difference,
            input,
            inputs_agree: input.is_some_and(|input| input <= measured),
            equality,
            is_whole: is_sampled_whole || distance.whole_l2.is_some(),
        }
    }

    pub(super) fn differs(&self) -> bool {
        self.difference.is_some()
    }

    /// Returns `true` if all numbers are proven to be equal.
    pub(super) fn is_identical(&self) -> bool {
        !self.differs() && self.equality == Equality::Proven
    }

    /// Returns `true` if no difference was found but not all numbers were compared.
    pub(super) fn is_unproven(&self) -> bool {
        !self.differs() && self.equality != Equality::Proven && !self.is_whole
    }
}

/// Returns `true` if only the hashes of two tensors differ.
fn is_unsampled(pair: &Pair<'_>, distance: &Distance) -> bool {
    let (before, after) = (pair.before, pair.after);
    let has_other_hash = match (&before.hash, &after.hash) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    let is_same = match distance.whole_l2 {
        // The hash includes the sign of zeros, which does not count as a difference.
        Some(whole) => whole == 0.0 && before.statistics.zeros + after.statistics.zeros == 0,
        None => !distance::is_whole(before),
    };
    has_other_hash && is_same && distance::has_same_sample(before, after) != Some(false)
}

/// Noise between runs of the reference, by place.
#[derive(Default)]
pub(super) struct Noise(HashMap<(TensorRole, String), PlaceNoise>);

/// Noise between runs of the reference at one place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceNoise {
    /// Largest relative distance between two runs.
    pub(super) distance: f64,
    /// `true` if any number varies.
    varies: bool,
    /// `true` if two runs differ in shapes, NaN or infinite numbers, so that their distance is
    /// infinite.
    is_unknown: bool,
}

impl Noise {
    /// Measures the noise between one run of the reference and further runs of it.
    pub(super) fn of(before: &NumericsRecord, again: &[NumericsRecord]) -> Self {
        let mut noise = Self::default();
        for other in again {
            for pair in pairs(before, other, &HashMap::new()).0 {
                let known = noise.0.entry(place(pair.before)).or_default();
                let distance = Distance::of(pair.before, pair.after).relative;
                // An infinite noise would allow any distance.
                match distance.is_finite() {
                    true => known.distance = known.distance.max(distance),
                    false => known.is_unknown = true,
                }
                let equality = distance::equality(pair.before, pair.after);
                known.varies |= equality == Equality::Refuted;
            }
        }
        noise
    }

    /// Returns the noise at the place of a tensor.
    pub(super) fn at(&self, tensor: &RecordedTensor) -> PlaceNoise {
        self.0.get(&place(tensor)).copied().unwrap_or_default()
    }

    /// Returns the number of places whose noise cannot be measured.
    pub(super) fn unknown(&self) -> u64 {
        self.0.values().filter(|noise| noise.is_unknown).count() as u64
    }
}

fn place(tensor: &RecordedTensor) -> (TensorRole, String) {
    (tensor.role, path(&tensor.name).to_owned())
}
