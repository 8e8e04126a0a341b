//! Two records of numbers compared: where two runs part.
//!
//! Tensors of the same step are put beside each other by their place, and where one is there more than once in the order in which they
//! were seen: one that only one side has is left out, and those behind it still find their
//! partners. Two whose hashes are equal are the same. Others differ where their shapes do, and
//! where they are further apart than rounding, or than two runs of the reference are from each
//! other.

mod distance;
mod element;
mod judge;
mod page;
mod pairs;
mod read;
#[cfg(test)]
mod tests;
mod text;
mod unlike;

use std::collections::{BTreeSet, HashMap};

use mlprof_events::TensorRole;
use mlprof_report::numerics::{RecordHeader, RecordedTensor};
use serde::Serialize;

pub use self::distance::Distance;
pub use self::judge::DifferenceKind;
use self::judge::{Judged, Noise};
pub use self::page::html;
use self::pairs::{Pair, pairs};
pub use self::read::read;
pub use self::text::text;
pub use self::unlike::BatchAgreement;

/// The record of a run.
#[derive(Debug, Clone)]
pub struct NumericsRecord {
    /// What it begins with.
    pub header: RecordHeader,
    /// The tensors, in the order in which they were seen.
    pub tensors: Vec<RecordedTensor>,
    /// Whether its last line is cut off, as of a run that was killed.
    pub is_cut_off: bool,
}

/// How two records are compared.
#[derive(Debug, Clone, Default)]
pub struct NumericsOptions {
    /// What places of the second record are called in the first: whole paths, or beginnings of paths up to a dot, of which the longest counts.
    pub names: HashMap<String, String>,
    /// How far two numbers may be apart, as a part of their size; `None`: by the type of the elements.
    pub tolerance: Option<f64>,
}

/// What two records have in common, and where they part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct NumericsComparison {
    /// How many steps both have.
    pub steps: u64,
    /// Steps that only the first has.
    pub steps_only_before: StepSpan,
    /// Steps that only the second has.
    pub steps_only_after: StepSpan,
    /// How many tensors were put beside each other.
    pub pairs: u64,
    /// How many tensors only the first has, in steps that both have.
    pub only_before: u64,
    /// How many only the second has.
    pub only_after: u64,
    /// How many pairs differ.
    pub different: u64,
    /// How many pairs are proven to be the same to the bit, by hashes of all numbers or by samples
    /// that have them all.
    pub identical: u64,
    /// How many pairs without a difference are known by statistics and a sample only, as the
    /// records have no hash or sketch of all numbers: that they are equal is not proven.
    pub unproven: u64,
    /// Whether two runs of the reference say what is noise.
    pub knows_noise: bool,
    /// In how many places a run of the reference has another shape than the other one, or NaN or an
    /// infinite number where that has not: what varies there is not known, and only rounding is
    /// left out.
    pub unknown_noise: u64,
    /// What the sides did not have in common from the beginning: then all that follows may be due to that.
    pub unlike: Vec<String>,
    /// What the random numbers of each side were seeded with, where it says so.
    pub seeds: [Option<u64>; 2],
    /// Whether both saw the same batches.
    pub batches: BatchAgreement,
    /// What each side ran with: framework, device, threads, types.
    pub ran_with: [String; 2],
    /// Names that were given for places which the second record does not have.
    pub unused_names: Vec<String>,
    /// The first pair whose inputs agree and whose outputs do not; without one, the first that differs.
    pub first: Option<FirstDifference>,
    /// One row for each place, in the order in which they were first seen.
    pub places: Vec<ComparedPlace>,
    /// How far the sides are apart in each step that both have.
    pub over_steps: Vec<ComparedStep>,
}

impl NumericsComparison {
    /// Whether both records have the same steps, and no tensors of them differ. Without a pair of
    /// tensors nothing is equal.
    pub fn is_equal(&self) -> bool {
        let lacking = self.steps_only_before.count + self.steps_only_after.count;
        self.pairs > 0 && self.different == 0 && lacking == 0
    }
}

/// Steps of one record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct StepSpan {
    /// Count of the steps.
    pub count: u64,
    /// The first of them.
    pub first: Option<u64>,
    /// The last of them.
    pub last: Option<u64>,
}

impl StepSpan {
    fn of(steps: impl Iterator<Item = u64> + Clone) -> Self {
        Self { count: steps.clone().count() as u64, first: steps.clone().min(), last: steps.max() }
    }
}

/// All pairs of one step.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedStep {
    /// Which step.
    pub step: u64,
    /// How many pairs there are.
    pub pairs: u64,
    /// How many differ.
    pub different: u64,
    /// How far the pair is apart that is furthest.
    pub relative: f64,
    /// The place of that pair.
    pub furthest: String,
}

/// Where two runs part.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FirstDifference {
    /// In which step.
    pub step: u64,
    /// What it is for.
    pub role: TensorRole,
    /// The place.
    pub name: String,
    /// How they differ.
    pub kind: DifferenceKind,
    /// The shapes of both sides.
    pub shapes: [Vec<u64>; 2],
    /// How far they are apart.
    pub distance: Distance,
    /// How far what they were computed from is apart, where it is known.
    pub input: Option<f64>,
    /// Whether the inputs agree.
    pub inputs_agree: bool,
}

/// All pairs of one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedPlace {
    /// What they are for.
    pub role: TensorRole,
    /// The place, as the first record has it.
    pub name: String,
    /// How many pairs there are.
    pub pairs: u64,
    /// How many differ.
    pub different: u64,
    /// The first step in which they do.
    pub first_step: Option<u64>,
    /// The pair that is furthest apart.
    pub worst: Distance,
    /// In which step that is.
    pub worst_step: u64,
    /// The last pair.
    pub last: Distance,
    /// The shapes of both sides in the first pair whose shapes are not the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shapes: Option<[Vec<u64>; 2]>,
    /// How far it is apart in each step, at the most: step, and distance as a part of its size.
    pub over_steps: Vec<(u64, f64)>,
    /// How far two runs of the reference are apart there.
    pub noise: f64,
}

/// Compares the record of a reference with that of another run; `again`: further runs of the reference, by which noise is known.
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
        unlike: unlike::unlike([before, after], &found, &judged, &batches),
        seeds: [before.header.seed, after.header.seed],
        batches,
        ran_with: [before, after].map(unlike::ran_with),
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

/// Returns the steps of a record that the other one does not have.
fn steps_without(record: &NumericsRecord, other: &NumericsRecord) -> StepSpan {
    let steps = |record: &NumericsRecord| -> BTreeSet<u64> {
        record.tensors.iter().map(|tensor| tensor.step).collect()
    };
    let (own, others) = (steps(record), steps(other));
    StepSpan::of(own.difference(&others).copied())
}

/// One row for each place.
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

/// One row for each step, in their order.
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

/// Where a place is in its model: a module's name without its type.
fn path(name: &str) -> &str {
    match name.strip_prefix("[module]") {
        Some(module) => module.split_once(": ").map_or(module, |(_, path)| path),
        None => name,
    }
}
