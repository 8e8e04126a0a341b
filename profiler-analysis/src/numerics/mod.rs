//! Two records of numbers compared: where two runs part.
//!
//! Tensors of the same step are put beside each other by their place, and where one is there more than once in the order in which they
//! were seen: one that only one side has is left out, and those behind it still find their partners. Two differ where they are further apart than rounding, or than two runs of the
//! reference are from each other.

mod distance;
mod page;
mod pairs;
mod read;
#[cfg(test)]
mod tests;
mod text;
mod unlike;

use std::collections::{BTreeMap, HashMap};

use profiler_events::TensorRole;
use profiler_report::numerics::{RecordHeader, RecordedTensor};
use serde::Serialize;

pub use self::distance::Distance;
pub use self::page::html;
use self::pairs::{Pair, pairs};
pub use self::read::{ReadRecordError, read};
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
    /// How many tensors were put beside each other.
    pub pairs: u64,
    /// How many tensors only the first has, in steps that both have.
    pub only_before: u64,
    /// How many only the second has.
    pub only_after: u64,
    /// How many pairs differ.
    pub different: u64,
    /// Whether two runs of the reference say what is noise.
    pub knows_noise: bool,
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
    let noise = noise_of(before, again);
    let (found, only) = pairs(before, after, &options.names);
    let judged: Vec<_> =
        found.iter().map(|pair| Judged::of(pair, &noise, options.tolerance)).collect();
    let both = found.iter().zip(&judged);
    let differing = || both.clone().filter(|(_, judged)| judged.differs);
    let first = differing().find(|(_, judged)| judged.inputs_agree).or_else(|| differing().next());
    let over_steps = over_steps(&found, &judged);
    let batches = BatchAgreement::of(before, after);
    NumericsComparison {
        steps: over_steps.len() as u64,
        pairs: found.len() as u64,
        only_before: only.before,
        only_after: only.after,
        different: judged.iter().filter(|judged| judged.differs).count() as u64,
        knows_noise: !again.is_empty(),
        unlike: unlike::unlike([before, after], &found, &judged, &batches),
        seeds: [before.header.seed, after.header.seed],
        batches,
        ran_with: [before, after].map(unlike::ran_with),
        unused_names: pairs::unused(&options.names, after),
        first: first.map(|(pair, judged)| FirstDifference {
            step: pair.before.step,
            role: pair.before.role,
            name: pair.before.name.clone(),
            distance: judged.distance,
            input: judged.input,
            inputs_agree: judged.inputs_agree,
        }),
        places: places(&found, &judged, &noise),
        over_steps,
    }
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
                over_steps: Vec::new(),
                noise: noise.get(&(key.0, key.1.to_owned())).copied().unwrap_or(0.0),
            });
            places.len() - 1
        });
        let row = &mut places[place];
        row.pairs += 1;
        row.different += u64::from(judged.differs);
        if judged.differs && row.first_step.is_none() {
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
        row.different += u64::from(judged.differs);
        if relative > row.relative {
            (row.relative, row.furthest) = (relative, pair.before.name.clone());
        }
    }
    steps
}

/// How far two runs of the reference are apart, by place.
type Noise = BTreeMap<(TensorRole, String), f64>;

/// Where a place is in its model: a module's name without its type.
fn path(name: &str) -> &str {
    match name.strip_prefix("[module]") {
        Some(module) => module.split_once(": ").map_or(module, |(_, path)| path),
        None => name,
    }
}

/// How far runs of the reference are apart, at the most, by place.
fn noise_of(before: &NumericsRecord, again: &[NumericsRecord]) -> Noise {
    let mut noise = BTreeMap::new();
    for other in again {
        for pair in pairs(before, other, &HashMap::new()).0 {
            let known = noise
                .entry((pair.before.role, path(&pair.before.name).to_owned()))
                .or_insert(0.0_f64);
            *known = known.max(Distance::of(pair.before, pair.after).relative);
        }
    }
    noise
}

/// How far a pair is apart, and what that means.
struct Judged {
    distance: Distance,
    differs: bool,
    input: Option<f64>,
    inputs_agree: bool,
}

/// So many times as far as two runs of the reference is no longer chance.
const BEYOND_NOISE: f64 = 3.0;

impl Judged {
    fn of(pair: &Pair<'_>, noise: &Noise, tolerance: Option<f64>) -> Self {
        let (before, after) = (pair.before, pair.after);
        let rounding = |kind: &str| -> f64 {
            match kind {
                "f64" => 1e-10,
                "f16" => 1e-2,
                "bf16" => 5e-2,
                _ => 1e-4,
            }
        };
        let least = rounding(&before.element_type).max(rounding(&after.element_type));
        let known =
            noise.get(&(before.role, path(&before.name).to_owned())).copied().unwrap_or(0.0);
        let allowed = tolerance.unwrap_or(least).max(BEYOND_NOISE * known);
        let distance = Distance::of(before, after);
        let input = match (&before.input, &after.input) {
            (Some(before), Some(after)) => Some(distance::of_statistics(before, after)),
            _ => None,
        };
        Self {
            distance,
            differs: distance.relative > allowed,
            input,
            inputs_agree: input.is_some_and(|input| input <= allowed),
        }
    }
}
