//! Which tensors of two records belong together.

use std::collections::{BTreeMap, HashMap};

use profiler_events::TensorRole;
use profiler_report::numerics::RecordedTensor;
use similar::{Algorithm, DiffOp, capture_diff_slices};

use super::{NumericsRecord, path};

/// Two tensors at one place in one step.
pub(super) struct Pair<'records> {
    pub(super) before: &'records RecordedTensor,
    pub(super) after: &'records RecordedTensor,
}

/// How many tensors have no partner.
#[derive(Default)]
pub(super) struct Only {
    pub(super) before: u64,
    pub(super) after: u64,
}

type Place<'records> = (TensorRole, &'records str);

/// The pairs, step by step, and what is left. `names`: what places of the second are called in the first.
pub(super) fn pairs<'records>(
    before: &'records NumericsRecord,
    after: &'records NumericsRecord,
    names: &'records HashMap<String, String>,
) -> (Vec<Pair<'records>>, Only) {
    let (mut found, mut only) = (Vec::new(), Only::default());
    let others = by_step(after);
    for (step, before) in by_step(before) {
        let Some(after) = others.get(&step) else { continue };
        let renamed = |tensor: &'records RecordedTensor| {
            let own = path(&tensor.name);
            let known = names.get(own).or_else(|| names.get(&tensor.name));
            (tensor.role, known.map_or(own, |name| path(name)))
        };
        let places: Vec<Place<'_>> = before.iter().map(|one| (one.role, path(&one.name))).collect();
        let other_places: Vec<Place<'_>> = after.iter().map(|one| renamed(one)).collect();
        let mut together = 0;
        for same in capture_diff_slices(Algorithm::Myers, &places, &other_places) {
            let DiffOp::Equal { old_index, new_index, len } = same else { continue };
            let (old, new) = (&before[old_index..][..len], &after[new_index..][..len]);
            found.extend(old.iter().zip(new).map(|(before, after)| Pair { before, after }));
            together += len;
        }
        only.before += (before.len() - together) as u64;
        only.after += (after.len() - together) as u64;
    }
    (found, only)
}

fn by_step(record: &NumericsRecord) -> BTreeMap<u64, Vec<&RecordedTensor>> {
    let mut steps: BTreeMap<u64, Vec<&RecordedTensor>> = BTreeMap::new();
    for tensor in &record.tensors {
        steps.entry(tensor.step).or_default().push(tensor);
    }
    steps
}
