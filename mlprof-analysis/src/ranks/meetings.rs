//! Moments that several ranks share: ends of collectives, which no rank leaves before all ranks of
//! the group have joined.
//!
//! The records of one collective have equal [`Key`]s on all ranks. A kernel's key contains the step
//! in which the host *launched* it, not the step in which it ran. Hosts run ahead of their devices
//! by different amounts.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::groups;
use crate::classify::Meanings;
use crate::host::steps::Step;
use crate::trace::{Category, Slice, Trace};

/// Identity of a collective among all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// Name of the operation and of its group of ranks.
    name: Arc<str>,
    scope: Scope,
    /// Position among the collectives of this name in the scope.
    number: u64,
    /// Number of collectives of this name in the scope. If ranks disagree on it, a rank lacks some
    /// of them, and positions cannot be matched.
    of: u64,
}

/// Part of a run in which the collectives of a name are numbered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Scope {
    /// The whole run, if the recorder numbered the collectives.
    Run,
    /// The collectives launched by a step of a stage.
    Step(Option<Arc<str>>, u64),
    /// The file, identified by its stage. Files of several cycles have the same keys.
    File(Option<Arc<str>>),
}

/// End of a collective.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    pub(super) key: Key,
    /// Unix time in nanoseconds by the rank's clock.
    pub(super) end: i64,
}

/// Collectives of a trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Meetings {
    /// Collectives with certain keys: numbered by the recorder, or launched in a numbered step.
    pub(super) certain: Vec<Meeting>,
    /// Kernels by their position in the file. The positions are wrong if two files begin with
    /// different collectives.
    pub(super) by_order: Vec<Meeting>,
}

/// Returns the collectives of a trace: marked actions, and kernels of libraries such as NCCL.
pub(super) fn meetings(trace: &Trace, meanings: &Meanings, steps: &[Step]) -> Meetings {
    let step_at = |time: i64| {
        let after = steps.partition_point(|step| step.start() <= time);
        steps.get(after.checked_sub(1)?)?.number
    };
    let end = |slice: &Slice| trace.info.base_ns + slice.end();
    let mut found = Meetings::default();
    let mut names = Names::default();
    let mut kernels = Vec::new();
    let correlations = trace.correlations();
    for slice in &trace.slices {
        let number = trace.details(slice).and_then(|details| details.collective);
        if slice.category == Category::Kernel && meanings.communicates(slice) {
            let calls = correlations.get(&slice.correlation).filter(|_| slice.correlation != 0);
            let call = calls.and_then(|of| of.call);
            if let Some(name) = groups::joined_by_all(trace, meanings, slice, call) {
                let launched = call.map(|call| trace.slices[call as usize].start);
                kernels.push((launched, slice, names.shared(&name)));
            }
        } else if let Some(number) = number.filter(|_| slice.category == Category::UserAnnotation) {
            let name = names.shared(trace.name(slice));
            let key = Key { name, scope: Scope::Run, number, of: 0 };
            found.certain.push(Meeting { key, end: end(slice) });
        }
    }
    let stage = trace.info.stage.as_deref().map(Arc::from);
    let launched = kernels.iter().filter_map(|(launched, slice, name)| {
        let launched = (*launched)?;
        let scope = Scope::Step(stage.clone(), step_at(launched)?);
        Some(((launched, slice.start), (name.clone(), scope), end(slice)))
    });
    found.certain.extend(numbered(launched.collect()));
    let ran = kernels.iter().map(|(_, slice, name)| {
        let scope = Scope::File(stage.clone());
        ((slice.start, slice.start), (name.clone(), scope), end(slice))
    });
    found.by_order = numbered(ran.collect());
    found
}

/// Collectives with the times by which they are ordered.
type Unnumbered = Vec<((i64, i64), (Arc<str>, Scope), i64)>;

/// Numbers the collectives within their scopes.
fn numbered(mut collectives: Unnumbered) -> Vec<Meeting> {
    collectives.sort_by_key(|(order, ..)| *order);
    let mut counts: FxHashMap<(Arc<str>, Scope), u64> = FxHashMap::default();
    for (_, scope, _) in &collectives {
        *counts.entry(scope.clone()).or_default() += 1;
    }
    let totals = counts.clone();
    counts.values_mut().for_each(|count| *count = 0);
    let meeting = |(_, of, end): ((i64, i64), (Arc<str>, Scope), i64)| {
        let total = totals[&of];
        let count = counts.entry(of.clone()).or_default();
        let (number, (name, scope)) = (*count, of);
        *count += 1;
        Meeting { key: Key { name, scope, number, of: total }, end }
    };
    collectives.into_iter().map(meeting).collect()
}

/// Shared strings, each stored once.
#[derive(Default)]
struct Names(FxHashMap<String, Arc<str>>);

impl Names {
    fn shared(&mut self, text: &str) -> Arc<str> {
        if let Some(name) = self.0.get(text) {
            return name.clone();
        }
        let name: Arc<str> = text.into();
        self.0.insert(text.to_owned(), name.clone());
        name
    }
}
