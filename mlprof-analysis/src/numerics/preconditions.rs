//! Preconditions of a comparison: equal seeds, batches and initial parameters. If they differ, all
//! later differences may result from that.

use std::collections::{BTreeMap, HashMap};

use mlprof_events::TensorRole;
use mlprof_report::numerics::RecordedTensor;
use serde::Serialize;

use super::NumericsRecord;
use super::judge::Judged;
use super::pairs::Pair;

/// Agreement of two runs' batches, judged by the hashes of their tensors.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize)]
pub struct BatchAgreement {
    /// Number of steps in which both runs have batch hashes.
    pub steps: u64,
    /// Number of these steps whose batches differ. If one side recorded fewer tensors, for example
    /// only inputs, these must be among the other side's tensors.
    pub different: u64,
    /// First step with different batches.
    pub first_different: Option<u64>,
}

impl BatchAgreement {
    pub(super) fn of(before: &NumericsRecord, after: &NumericsRecord) -> Self {
        let (before, after) = (hashes(before), hashes(after));
        let mut agreement = Self::default();
        for (step, own) in &before {
            let Some(others) = after.get(step) else { continue };
            agreement.steps += 1;
            if !are_among(own, others) && !are_among(others, own) {
                agreement.different += 1;
                agreement.first_different.get_or_insert(*step);
            }
        }
        agreement
    }
}

/// Number of occurrences of each hash.
type Hashes<'record> = HashMap<&'record str, u64>;

fn hashes(record: &NumericsRecord) -> BTreeMap<u64, Hashes<'_>> {
    let mut steps: BTreeMap<u64, Hashes<'_>> = BTreeMap::new();
    let is_batch = |tensor: &&RecordedTensor| tensor.role == TensorRole::Batch && !tensor.is_rerun;
    for tensor in record.tensors.iter().filter(is_batch) {
        if let Some(hash) = &tensor.hash {
            *steps.entry(tensor.step).or_default().entry(hash).or_default() += 1;
        }
    }
    steps
}

fn are_among(few: &Hashes<'_>, many: &Hashes<'_>) -> bool {
    few.iter().all(|(hash, times)| many.get(hash).is_some_and(|others| times <= others))
}

/// Returns sentences about the violated preconditions.
pub(super) fn check(
    [before, after]: [&NumericsRecord; 2],
    pairs: &[Pair<'_>],
    judged: &[Judged],
    batches: &BatchAgreement,
) -> Vec<String> {
    let mut found = Vec::new();
    if let (Some(before), Some(after)) = (before.header.seed, after.header.seed)
        && before != after
    {
        found.push(format!("the seeds are {before} and {after}"));
    }
    if let Some(step) = batches.first_different {
        found.push(format!(
            "the batches differ in {} of {} steps, starting with step {step}; feed both runs the same batches \
             in the same order",
            batches.different, batches.steps
        ));
    }
    let first_step = pairs.first().map(|pair| pair.before.step);
    let both = || pairs.iter().zip(judged);
    let in_first_step = || both().filter(move |(pair, _)| Some(pair.before.step) == first_step);
    let is_other = |(pair, judged): &(&Pair<'_>, &Judged)| {
        pair.before.role == TensorRole::Parameter && judged.differs()
    };
    let other: Vec<_> = in_first_step().filter(is_other).collect();
    if let Some((pair, _)) = other.first() {
        found.push(format!(
            "{} parameters differ in the first common step, {}, starting with {}; start both runs with the \
             same seed or weights",
            other.len(),
            pair.before.step,
            pair.before.name
        ));
    }
    let batch = in_first_step().find(|(_, judged)| judged.input.is_some());
    // Without batch hashes, the input statistics of the first module are compared instead.
    let batch = batch.filter(|(_, judged)| batches.steps == 0 && !judged.inputs_agree);
    if let Some((pair, judged)) = batch {
        found.push(format!(
            "the inputs of {} in step {} are {:.1e} apart; feed both runs the same batches in the same order",
            pair.before.name,
            pair.before.step,
            judged.input.unwrap_or_default()
        ));
    }
    if before.header.rank != after.header.rank {
        let (before, after) = (before.header.rank, after.header.rank);
        found.push(format!("the records belong to rank {before} and rank {after}"));
    }
    found
}

/// Returns a text about the environment of a run.
pub(super) fn ran_with(record: &NumericsRecord) -> String {
    let header = &record.header;
    let frameworks = header.frameworks.iter().map(|framework| {
        let version = framework.version.iter().map(|version| format!(" {version}"));
        let devices = match framework.devices.is_empty() {
            true => String::new(),
            false => format!(" on {}", framework.devices.join(", ")),
        };
        let threads = framework.threads.map_or_else(String::new, |threads| match threads {
            1 => ", 1 thread".to_owned(),
            threads => format!(", {threads} threads"),
        });
        format!("{}{}{devices}{threads}", framework.name, version.collect::<String>())
    });
    let mut parts: Vec<String> = header.program.iter().cloned().chain(frameworks).collect();
    if !header.element_types.is_empty() {
        parts.push(header.element_types.join(", "));
    }
    if let Some(seed) = header.seed {
        parts.push(format!("seed {seed}"));
    }
    parts.join("; ")
}
