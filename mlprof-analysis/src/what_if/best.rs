//! Improvements that would gain most.

use rustc_hash::FxHashMap;
use serde::Serialize;

use super::graph::NO_SLICE;
use super::replay::walk;
use super::selection::DATA;
use super::{Change, Error, WhatIf};
use crate::trace::Category;

/// Factor of an improvement by 10 %.
const IMPROVED: f64 = 0.9;
/// Number of replayed candidates for each listed improvement.
const CANDIDATES: usize = 3;

/// Gain of a single improvement by 10 %.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Improvement {
    /// Name of the ops, kernels, modules or actions that take 10 % less time.
    pub name: String,
    /// Predicted gain over all steps in nanoseconds.
    pub gain_ns: i64,
    /// Lower end of the interval of the gain, in nanoseconds.
    pub low_ns: i64,
    /// Upper end of the interval of the gain, in nanoseconds.
    pub high_ns: i64,
    /// Time on the recorded critical path with this name as the innermost slice, op or module, in
    /// nanoseconds.
    pub on_path_ns: i64,
}

impl WhatIf<'_> {
    /// Returns the `count` names whose improvement by 10 % gains most, on top of the given changes.
    ///
    /// Only time on the critical path can be gained. Therefore the replayed candidates are the
    /// innermost slices, ops and modules with the most time on the recorded path.
    ///
    /// # Errors
    ///
    /// Returns an error if a name or a rank of a change does not occur in the traces.
    pub fn best(&self, count: usize, changes: &[Change]) -> Result<Vec<Improvement>, Error> {
        let base = self.predict(changes)?;
        let mut candidates: Vec<(String, i64)> = self.on_path().into_iter().collect();
        candidates.sort_by(|one, other| other.1.cmp(&one.1).then_with(|| one.0.cmp(&other.0)));
        let mut found = Vec::new();
        for (name, on_path_ns) in candidates.into_iter().take(count.saturating_mul(CANDIDATES)) {
            let mut changes = changes.to_vec();
            changes.push(Change::Scale(name.clone(), IMPROVED));
            let with = self.predict(&changes)?;
            let gain_ns = base.predicted_ns - with.predicted_ns;
            if gain_ns > 0 {
                let (low_ns, high_ns) = match base.recorded_ns == base.predicted_ns {
                    true => (base.recorded_ns - with.high_ns, base.recorded_ns - with.low_ns),
                    false => (base.high_ns - with.high_ns, base.low_ns - with.low_ns),
                };
                let (low_ns, high_ns) = (low_ns.min(gain_ns), high_ns.max(gain_ns));
                found.push(Improvement { name, gain_ns, low_ns, high_ns, on_path_ns });
            }
        }
        found.sort_by(|one, other| {
            other.gain_ns.cmp(&one.gain_ns).then_with(|| one.name.cmp(&other.name))
        });
        found.truncate(count);
        Ok(found)
    }

    /// Returns the time on the critical paths of all steps by name.
    fn on_path(&self) -> FxHashMap<String, i64> {
        let mut times: FxHashMap<(usize, crate::trace::Name), i64> = FxHashMap::default();
        let mut data = 0;
        for part in self.steps.iter().flat_map(|step| &step.parts) {
            let Some(last) = part.end.1 else { continue };
            walk(&self.graph, last as usize, part.start.0, |node| {
                if node.slice == NO_SLICE {
                    return;
                }
                let after = self.traces.partition_point(|one| one.first_slice <= node.slice);
                let of = after - 1; // the first trace begins at 0
                let loaded = &self.traces[of];
                let (trace, meanings) = (loaded.trace, &loaded.meanings);
                let place = (node.slice - loaded.first_slice) as usize;
                let duration = node.end - node.ready;
                if meanings.is_in_data(place) {
                    data += duration;
                    return;
                }
                let call = loaded.work.call(place as u32).map_or(place, |call| call as usize);
                let slice = &trace.slices[place];
                let is_step = meanings.step(slice).is_some() || meanings.is_batch(slice);
                let own = (!is_step && slice.category != Category::Overhead).then_some(slice.name);
                let op = meanings.op(call).map(|op| trace.slices[op].name);
                let op = op.filter(|op| Some(*op) != own);
                let module = meanings.module(call).filter(|module| Some(*module) != own);
                for name in [own, op, module].into_iter().flatten() {
                    *times.entry((of, name)).or_default() += duration;
                }
            });
        }
        let mut found: FxHashMap<String, i64> = FxHashMap::default();
        for ((of, name), time) in times {
            *found.entry(self.traces[of].trace.names.text(name).to_owned()).or_default() += time;
        }
        if data > 0 {
            found.insert(DATA.to_owned(), data);
        }
        found
    }
}
