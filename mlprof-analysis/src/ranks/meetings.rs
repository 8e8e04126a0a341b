//! Moments that several ranks share: the ends of collectives, which no rank leaves before all ranks
//! of the group have joined.
//!
//! Two ranks' records of one collective have equal [`Key`]s. A kernel gets its key from the step in
//! which the host
//! *launched* it, never from the step in which it ran: hosts run ahead of their devices by different amounts.

use std::hash::Hash;
use std::sync::Arc;

use rustc_hash::FxHashMap;

use super::groups;
use crate::host::steps::Step;
use crate::meaning::Meanings;
use crate::trace::{Category, Slice, Trace};

/// Identity of one collective among those of all ranks.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    /// The operation, and the group of ranks that takes part in it.
    name: Arc<str>,
    scope: Scope,
    /// Place among the collectives of this name in the scope.
    number: u64,
    /// Number of collectives of this name in the scope. Where ranks disagree on it, one of them
    /// lacks some of them, and their places say nothing.
    of: u64,
}

/// Part of a run in which collectives of a name are numbered.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Scope {
    /// The whole run: the recorder numbered them.
    Run,
    /// Those that a step of a stage launched.
    Step(Option<Arc<str>>, u64),
    /// The file, which is of a stage. Files of several cycles have the same keys.
    File(Option<Arc<str>>),
}

/// The end of a collective.
#[derive(Debug, Clone)]
pub(super) struct Meeting {
    pub(super) key: Key,
    /// In nanoseconds of Unix time, by the rank's clock.
    pub(super) end: i64,
}

/// The collectives of a trace.
#[derive(Debug, Clone, Default)]
pub(super) struct Meetings {
    /// Those whose keys are certain: numbered by the recorder, or launched in a step that has a
    /// number.
    pub(super) certain: Vec<Meeting>,
    /// Kernels by their place in the file. Of two files that do not begin with the same collective,
    /// the places differ.
    pub(super) by_order: Vec<Meeting>,
}

/// Returns the collectives of a trace: marked ones, and kernels of libraries such as NCCL.
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

/// Collectives with the times that order them.
type Unnumbered = Vec<((i64, i64), (Arc<str>, Scope), i64)>;

/// Numbers collectives within their scopes.
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

/// Texts, each of them kept once.
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
