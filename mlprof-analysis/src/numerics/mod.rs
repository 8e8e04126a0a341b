//! Comparison of two numerics records, which finds the place where two runs diverge.
//!
//! Tensors of the same step are paired by their place, and repeated places are paired in recorded
//! order. A tensor that only one side has is skipped, and the tensors after it still find their
//! partners.
//!
//! Tensors with equal hashes are equal. Other pairs differ if their shapes differ. They also differ
//! if their distance exceeds rounding and the noise between two runs of the reference.

mod distance;
mod element;
mod judge;
mod page;
mod pairs;
mod preconditions;
mod read;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeSet, HashMap};

use mlprof_events::TensorRole;
use mlprof_report::numerics::{RecordHeader, RecordedTensor};
use serde::Serialize;

pub use self::distance::Distance;
pub use self::judge::DifferenceKind;
use self::judge::{Judged, Noise};
pub use self::page::html;
use self::pairs::{Pair, pairs};
pub use self::preconditions::BatchAgreement;
pub use self::read::read;
pub use self::text::text;

/// Numerics record of a run.
#[derive(Debug, Clone)]
pub struct NumericsRecord {
    /// Header of the record.
    pub header: RecordHeader,
    /// Tensors in recorded order.
    pub tensors: Vec<RecordedTensor>,
    /// `true` if the last line is incomplete because the run was killed.
    pub is_cut_off: bool,
}

/// Options of a comparison.
#[derive(Debug, Clone, Default)]
pub struct NumericsOptions {
    /// Names in the first record for places of the second record. Keys are full paths, or path
    /// prefixes up to a dot, of which the longest match counts.
    pub names: HashMap<String, String>,
    /// Relative tolerance of numbers. `None` uses the tolerance of the element type.
    pub tolerance: Option<f64>,
}

/// Result of comparing two records.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumericsComparison {
    /// Number of steps that both records have.
    pub steps: u64,
    /// Steps that only the first record has.
    pub steps_only_before: StepSpan,
    /// Steps that only the second record has.
    pub steps_only_after: StepSpan,
    /// Number of compared pairs of tensors.
    pub pairs: u64,
    /// Number of tensors that only the first record has, in common steps.
    pub only_before: u64,
    /// Number of tensors that only the second record has, in common steps.
    pub only_after: u64,
    /// Number of pairs that differ.
    pub different: u64,
    /// Number of pairs that are proven to be bitwise equal, by hashes of all numbers or by complete
    /// samples.
    pub identical: u64,
    /// Number of pairs without a difference whose equality is not proven. Their records have only
    /// statistics and a sample, without a hash or sketch of all numbers.
    pub unproven: u64,
    /// `true` if further runs of the reference were given to measure noise.
    pub knows_noise: bool,
    /// Number of places where two reference runs differ in shape, NaN or infinite numbers. Their
    /// noise is unknown, so only rounding is tolerated there.
    pub unknown_noise: u64,
    /// Differences in the initial conditions, which may explain all later differences.
    pub unlike: Vec<String>,
    /// Random seed of each side, if recorded.
    pub seeds: [Option<u64>; 2],
    /// Agreement of the two sides' batches.
    pub batches: BatchAgreement,
    /// Environment of each side: framework, device, threads, element types.
    pub ran_with: [String; 2],
    /// Given names for places that the second record does not have.
    pub unused_names: Vec<String>,
    /// First pair whose inputs agree and whose outputs differ. If there is none, the first pair
    /// that differs.
    pub first: Option<FirstDifference>,
    /// One row per place, in order of first occurrence.
    pub places: Vec<ComparedPlace>,
    /// Distance between the two sides in each common step.
    pub over_steps: Vec<ComparedStep>,
}

impl NumericsComparison {
    /// Returns `true` if both records have the same steps and no pair of tensors differs. Records
    /// without a pair are not equal.
    pub fn is_equal(&self) -> bool {
        let lacking = self.steps_only_before.count + self.steps_only_after.count;
        self.pairs > 0 && self.different == 0 && lacking == 0
    }
}

/// Range of steps of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StepSpan {
    /// Number of steps.
    pub count: u64,
    /// First step.
    pub first: Option<u64>,
    /// Last step.
    pub last: Option<u64>,
}

impl StepSpan {
    fn of(steps: impl Iterator<Item = u64> + Clone) -> Self {
        Self { count: steps.clone().count() as u64, first: steps.clone().min(), last: steps.max() }
    }
}

/// Comparison of all pairs of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedStep {
    /// Step number.
    pub step: u64,
    /// Number of pairs.
    pub pairs: u64,
    /// Number of pairs that differ.
    pub different: u64,
    /// Relative distance of the furthest pair.
    pub relative: f64,
    /// Place of the furthest pair.
    pub furthest: String,
}

/// Place where two runs diverge.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstDifference {
    /// Step number.
    pub step: u64,
    /// Role of the tensor.
    pub role: TensorRole,
    /// Name of the place.
    pub name: String,
    /// Kind of the difference.
    pub kind: DifferenceKind,
    /// Shapes of both sides.
    pub shapes: [Vec<u64>; 2],
    /// Distance between the two tensors.
    pub distance: Distance,
    /// Relative distance of the inputs from which the tensors were computed, if recorded.
    pub input: Option<f64>,
    /// `true` if the inputs agree.
    pub inputs_agree: bool,
}

/// Comparison of all pairs of one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedPlace {
    /// Role of the tensors.
    pub role: TensorRole,
    /// Name of the place in the first record.
    pub name: String,
    /// Number of pairs.
    pub pairs: u64,
    /// Number of pairs that differ.
    pub different: u64,
    /// First step with a differing pair.
    pub first_step: Option<u64>,
    /// Distance of the furthest pair.
    pub worst: Distance,
    /// Step of the furthest pair.
    pub worst_step: u64,
    /// Distance of the last pair.
    pub last: Distance,
    /// Shapes of both sides in the first pair with different shapes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<[Vec<u64>; 2]>,
    /// Step numbers, each with the largest relative distance in that step.
    pub over_steps: Vec<(u64, f64)>,
    /// Largest relative distance between two reference runs at this place.
    pub noise: f64,
}

/// Compares the record of a reference run with that of another run. `again` contains further
/// reference runs, which determine the noise.
pub fn compare(
    before: &NumericsRecord,
    after: &NumericsRecord,
    again: &[NumericsRecord],
    options: &NumericsOptions,
) -> NumericsComparison {
    let noise = Noise::of(before, again);
    let (found, only) = pairs(before, after, &options.names);
    let judged: Vec<_> =
        found.iter().map(|pair| Judged::of(pair, &noise, options.tolerance)).collect();
    let both = found.iter().zip(&judged);
    let differing = || both.clone().filter(|(_, judged)| judged.differs());
    let first = differing().find(|(_, judged)| judged.inputs_agree).or_else(|| differing().next());
    let over_steps = over_steps(&found, &judged);
    let batches = BatchAgreement::of(before, after);
    NumericsComparison {
        steps: over_steps.len() as u64,
        steps_only_before: steps_without(before, after),
        steps_only_after: steps_without(after, before),
        pairs: found.len() as u64,
        only_before: only.before,
        only_after: only.after,
        different: judged.iter().filter(|judged| judged.differs()).count() as u64,
        identical: judged.iter().filter(|judged| judged.is_identical()).count() as u64,
        unproven: judged.iter().filter(|judged| judged.is_unproven()).count() as u64,
        knows_noise: !again.is_empty(),
        unknown_noise: noise.unknown(),
        unlike: preconditions::check([before, after], &found, &judged, &batches),
        seeds: [before.header.seed, after.header.seed],
        batches,
        ran_with: [before, after].map(preconditions::ran_with),
        unused_names: pairs::unused(&options.names, after),
        first: first.and_then(|(pair, judged)| {
            Some(FirstDifference {
                step: pair.before.step,
                role: pair.before.role,
                name: pair.before.name.clone(),
                kind: judged.difference?,
                shapes: pair.shapes(),
                distance: judged.distance,
                input: judged.input,
                inputs_agree: judged.inputs_agree,
            })
        }),
        places: places(&found, &judged, &noise),
        over_steps,
    }
}

/// Returns the steps of a record that the other record does not have.
fn steps_without(record: &NumericsRecord, other: &NumericsRecord) -> StepSpan {
    let steps = |record: &NumericsRecord| -> BTreeSet<u64> {
        record.tensors.iter().map(|tensor| tensor.step).collect()
    };
    let (own, others) = (steps(record), steps(other));
    StepSpan::of(own.difference(&others).copied())
}

/// Returns one row per place.
fn places(found: &[Pair<'_>], judged: &[Judged], noise: &Noise) -> Vec<ComparedPlace> {
    let mut places: Vec<ComparedPlace> = Vec::new();
    let mut known: HashMap<(TensorRole, &str), usize> = HashMap::new();
    for (pair, judged) in found.iter().zip(judged) {
        let (step, distance) = (pair.before.step, judged.distance);
        let key = (pair.before.role, path(&pair.before.name));
        let place = *known.entry(key).or_insert_with(|| {
            places.push(ComparedPlace {
                role: pair.before.role,
                name: pair.before.name.clone(),
                pairs: 0,
                different: 0,
                first_step: None,
                worst: distance,
                worst_step: step,
                last: distance,
                shapes: None,
                over_steps: Vec::new(),
                noise: noise.at(pair.before).distance,
            });
            places.len() - 1
        });
        let row = &mut places[place];
        row.pairs += 1;
        row.different += u64::from(judged.differs());
        if pair.before.shape != pair.after.shape {
            row.shapes.get_or_insert_with(|| pair.shapes());
        }
        if judged.differs() && row.first_step.is_none() {
            row.first_step = Some(step);
        }
        if distance.relative > row.worst.relative {
            (row.worst, row.worst_step) = (distance, step);
        }
        row.last = distance;
        match row.over_steps.last_mut().filter(|(last, _)| *last == step) {
            Some((_, largest)) => *largest = largest.max(distance.relative),
            None => row.over_steps.push((step, distance.relative)),
        }
    }
    places
}

/// Returns one row per step, in order.
fn over_steps(found: &[Pair<'_>], judged: &[Judged]) -> Vec<ComparedStep> {
    let mut steps: Vec<ComparedStep> = Vec::new();
    for (pair, judged) in found.iter().zip(judged) {
        let (step, relative) = (pair.before.step, judged.distance.relative);
        if steps.last().is_none_or(|last| last.step != step) {
            let furthest = pair.before.name.clone();
            steps.push(ComparedStep { step, pairs: 0, different: 0, relative, furthest });
        }
        let Some(row) = steps.last_mut() else { continue };
        row.pairs += 1;
        row.different += u64::from(judged.differs());
        if relative > row.relative {
            (row.relative, row.furthest) = (relative, pair.before.name.clone());
        }
    }
    steps
}

/// Returns the path of a place in its model, which is a module's name without its type.
fn path(name: &str) -> &str {
    match name.strip_prefix("[module]") {
        Some(module) => module.split_once(": ").map_or(module, |(_, path)| path),
        None => name,
    }
}
