//! The verdict on each pair of tensors.

use std::collections::HashMap;

use mlprof_events::TensorRole;
use mlprof_report::numerics::RecordedTensor;
use serde::Serialize;

use super::distance::{self, Distance, Equality};
use super::element::ElementType;
use super::pairs::{Pair, pairs};
use super::{NumericsRecord, path};

/// How two tensors differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// Their shapes are not the same; sides of 1 do not count.
    Shape,
    /// One has NaN or an infinite number where the other has not, or one of another sign.
    NotFinite,
    /// Both have as many NaN and infinite numbers, and the records do not know whether these are
    /// the same ones at the same positions.
    UnknownNotFinite,
    /// Their numbers are further apart than rounding.
    Numbers,
    /// Their hashes are not the same, and their samples are: numbers differ at positions that the
    /// samples do not have, and by how much is not known.
    Unsampled,
}

/// The verdict on a pair.
pub(super) struct Judged {
    pub(super) distance: Distance,
    pub(super) difference: Option<DifferenceKind>,
    pub(super) input: Option<f64>,
    pub(super) inputs_agree: bool,
    equality: Equality,
    /// Whether the distance is one of all numbers.
    is_whole: bool,
}

/// So many times as far as two runs of the reference is no longer chance.
const BEYOND_NOISE: f64 = 3.0;

/// Sums over integers are apart by less than this part where the integers are the same, on devices
/// that compute with 32 bits.
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
        // Sums of a device are rounded, also those over integers.
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

    /// Whether all numbers are proven to be the same.
    pub(super) fn is_identical(&self) -> bool {
        !self.differs() && self.equality == Equality::Proven
    }

    /// Whether no difference was found, though not all numbers were compared.
    pub(super) fn is_unproven(&self) -> bool {
        !self.differs() && self.equality != Equality::Proven && !self.is_whole
    }
}

/// Whether hashes say that numbers differ, and nothing else in the records does.
fn is_unsampled(pair: &Pair<'_>, distance: &Distance) -> bool {
    let (before, after) = (pair.before, pair.after);
    let has_other_hash = match (&before.hash, &after.hash) {
        (Some(one), Some(other)) => one != other,
        _ => false,
    };
    let is_same = match distance.whole_l2 {
        // The sign of a zero is in the hash, and makes no difference.
        Some(whole) => whole == 0.0 && before.statistics.zeros + after.statistics.zeros == 0,
        None => !distance::is_whole(before),
    };
    has_other_hash && is_same && distance::has_same_sample(before, after) != Some(false)
}

/// What varies between runs of the reference, by place.
#[derive(Default)]
pub(super) struct Noise(HashMap<(TensorRole, String), PlaceNoise>);

/// What varies between runs of the reference at one place.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct PlaceNoise {
    /// The most that two runs are apart, as a part of their size.
    pub(super) distance: f64,
    /// Whether any number varies.
    varies: bool,
    /// Whether two runs are apart by more than can be measured: by shapes, NaN or infinite numbers.
    is_unknown: bool,
}

impl Noise {
    /// Returns what varies between a run of the reference and others of it.
    pub(super) fn of(before: &NumericsRecord, again: &[NumericsRecord]) -> Self {
        let mut noise = Self::default();
        for other in again {
            for pair in pairs(before, other, &HashMap::new()).0 {
                let known = noise.0.entry(place(pair.before)).or_default();
                let distance = Distance::of(pair.before, pair.after).relative;
                // A distance without bound would allow everything.
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

    /// Returns the count of places where the noise cannot be measured.
    pub(super) fn unknown(&self) -> u64 {
        self.0.values().filter(|noise| noise.is_unknown).count() as u64
    }
}

fn place(tensor: &RecordedTensor) -> (TensorRole, String) {
    (tensor.role, path(&tensor.name).to_owned())
}
