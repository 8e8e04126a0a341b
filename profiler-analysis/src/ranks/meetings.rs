//! Where ranks meet: collectives, which nobody is through before all have come.

use std::hash::{Hash, Hasher};

use rustc_hash::FxHashMap;

use crate::host::steps::Step;
use crate::meaning::Meanings;
use crate::trace::{Category, Name, Trace};

/// An end of a collective. Equal to that of another rank if both are of the same one.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    name: String,
    /// The step, where a kernel is known only by its place in it.
    step: Option<u64>,
    sequence: u64,
    /// In nanoseconds of Unix time, by the rank's clock.
    pub(super) end: i64,
}

impl Meeting {
    fn key(&self) -> (&str, Option<u64>, u64) {
        (&self.name, self.step, self.sequence)
    }
}

impl PartialEq for Meeting {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Meeting {}

impl Hash for Meeting {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

/// Those of a trace: what was marked as a collective, and kernels of libraries such as NCCL, which are counted
/// within their step.
pub(super) fn meetings(trace: &Trace, meanings: &Meanings, steps: &[Step]) -> Vec<Meeting> {
    let step_at = |time: i64| {
        let after = steps.partition_point(|step| step.start() <= time);
        steps.get(after.checked_sub(1)?)?.number
    };
    let mut counts: FxHashMap<(Name, Option<u64>), u64> = FxHashMap::default();
    let mut found = Vec::new();
    let mut kernels: Vec<_> = Vec::new();
    for slice in &trace.slices {
        let name = || trace.name(slice).to_owned();
        let end = trace.info.base_ns + slice.end();
        if let Some(sequence) = trace.details(slice).and_then(|details| details.collective) {
            found.push(Meeting { name: name(), step: None, sequence, end });
        } else if slice.category == Category::Kernel && meanings.communicates(slice) {
            kernels.push(slice);
        }
    }
    // Streams stand one after the other in a trace.
    kernels.sort_by_key(|slice| (slice.start, slice.track));
    for slice in kernels {
        let step = step_at(slice.start);
        let count = counts.entry((slice.name, step)).or_default();
        let end = trace.info.base_ns + slice.end();
        found.push(Meeting { name: trace.name(slice).to_owned(), step, sequence: *count, end });
        *count += 1;
    }
    found
}
