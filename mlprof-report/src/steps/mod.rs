//! How long each step took, and what its time went into.

pub(crate) mod durations;
pub(crate) mod log;

use serde::Serialize;

#[doc(hidden)]
pub use self::durations::{DurationBucket, StepDurations};
use crate::value::report_value;
use mlprof_events::OrderExt;
use mlprof_events::Stage;

/// No series has more entries, however many steps there were.
#[doc(hidden)]
pub const MOST_ENTRIES: usize = 4096;

report_value! {
/// The steps of one stage in the order of time: those of training, or those of the validation inside it,
/// which has one entry for each time that it ran.
///
/// Past [`MOST_ENTRIES`] steps neighbours share an entry, two and two, then four and four. What the
/// longest of them was is kept, so that one slow step among a million is still seen, and single
/// steps are counted in histograms.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepSeries from StepSeriesParts {
    /// The stage that the steps are of; `None` outside of any.
    pub stage: Option<Stage>,
    /// How many steps are in the entries.
    pub steps: u64,
    /// The entries, the earliest first.
    pub entries: Vec<StepEntry>,
    /// The single steps as histograms, where steps share entries; `None` in reports of versions
    /// that did not keep them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durations: Option<StepDurations>,
}
}

report_value! {
/// One step, or a few that followed each other. Times in seconds; those that are left out in JSON are 0.
///
/// The parts are of the thread that runs the loop, and add up to `seconds`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepEntry from StepEntryParts {
    /// The number of the first one, counted from 0 in its stage.
    pub number: u64,
    /// How many steps these are.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// When the first one began, since the beginning of the stage that is reported.
    pub start_seconds: f64,
    /// How long they took together.
    pub seconds: f64,
    /// Waiting for data.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub data_seconds: f64,
    /// From the batch to the loss, and, where a framework does both at once, back to the gradients.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub forward_seconds: f64,
    /// From the loss back to the gradients.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub backward_seconds: f64,
    /// From the gradients to new parameters.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub optimizer_seconds: f64,
    /// In collectives, as `all_reduce_gradients`, in which processes wait for each other.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub collective_seconds: f64,
    /// All the rest: moving batches, callbacks, logging, what happens between epochs.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub other_seconds: f64,
    /// The longest of them; `None` where there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<LongestStep>,
    /// What took the most time itself in the longest of them, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<SlowestAction>,
}
}

/// The longest of the steps of one [`StepEntry`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LongestStep {
    /// Its number, counted from 0 in its stage.
    pub number: u64,
    /// How long it took, in seconds.
    pub seconds: f64,
}

/// What took the most time in a step, without what ran inside of it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SlowestAction {
    /// The name of the action, op or function.
    pub name: String,
    /// Its own time in that step, in seconds.
    pub seconds: f64,
}

/// How much of a step's time a part of it is, in seconds.
pub(crate) type PartSeconds = fn(&StepEntry) -> f64;

/// What a step's time goes into, in the order of time: each with its name. Their sum is all of it.
pub(crate) const PARTS: [(&str, PartSeconds); 6] = [
    ("data", |entry| entry.data_seconds),
    ("forward", |entry| entry.forward_seconds),
    ("backward", |entry| entry.backward_seconds),
    ("collectives", |entry| entry.collective_seconds),
    ("optimizer", |entry| entry.optimizer_seconds),
    ("other", |entry| entry.other_seconds),
];

impl StepEntry {
    /// The longest of its steps, which is the only one where there is one.
    #[doc(hidden)]
    pub fn longest(&self) -> LongestStep {
        self.longest.unwrap_or(LongestStep { number: self.number, seconds: self.seconds })
    }

    /// What one of its steps took, in the mean.
    #[doc(hidden)]
    pub fn mean_seconds(&self) -> f64 {
        self.seconds / self.count.max(1) as f64
    }
}

impl StepEntry {
    /// What follows this one shares its place.
    fn merge(&mut self, next: &Self) {
        let (own, other) = (self.longest(), next.longest());
        self.longest = Some(if other.seconds > own.seconds { other } else { own });
        if other.seconds > own.seconds {
            self.slowest.clone_from(&next.slowest);
        }
        self.count += next.count;
        self.seconds += next.seconds;
        self.data_seconds += next.data_seconds;
        self.forward_seconds += next.forward_seconds;
        self.backward_seconds += next.backward_seconds;
        self.optimizer_seconds += next.optimizer_seconds;
        self.collective_seconds += next.collective_seconds;
        self.other_seconds += next.other_seconds;
    }
}

impl StepSeries {
    /// The same steps in at most so many entries: neighbours share them.
    pub(crate) fn shortened(&self, entries: usize) -> Self {
        let shared_by = self.entries.len().div_ceil(entries.max(1)).max(1);
        let merged = self.entries.chunks(shared_by).map(|neighbours| {
            let mut first = neighbours[0].clone();
            neighbours[1..].iter().for_each(|next| first.merge(next));
            first
        });
        let is_single = self.entries.iter().all(|entry| entry.count == 1);
        let durations = match &self.durations {
            None if shared_by > 1 && is_single => Some(StepDurations::of(&self.entries)),
            durations => durations.clone(),
        };
        Self { stage: self.stage, steps: self.steps, entries: merged.collect(), durations }
    }

    /// Whether several steps share an entry.
    pub(crate) fn has_shared_entries(&self) -> bool {
        self.entries.iter().any(|entry| entry.count > 1)
    }

    /// The steps but the first, which compiles, allocates and starts threads, and says nothing of
    /// the others. A first entry of several steps stays, as its first step is not known alone.
    pub(crate) fn later(&self) -> Self {
        let is_later = |entry: &&StepEntry| entry.number > 0 || entry.count > 1;
        let entries: Vec<StepEntry> = self.entries.iter().filter(is_later).cloned().collect();
        let steps = self.steps - (self.entries.len() - entries.len()) as u64;
        Self { stage: self.stage, steps, entries, durations: self.durations.clone() }
    }

    /// How long steps took that no `share` of all was longer than: 0.5 for the median. Where steps
    /// share entries it is within 1.6 % of the exact one; in reports of versions without
    /// [histograms](Self::durations) the mean of an entry counts, except for its longest step.
    /// `None` without steps.
    ///
    /// ```
    /// use mlprof_core::report::steps::{StepEntry, StepSeries};
    ///
    /// let entry = |seconds| StepEntry { count: 1, seconds, ..StepEntry::default() };
    /// let entries = vec![entry(2.0), entry(1.0), entry(9.0)];
    /// let series = StepSeries { steps: 3, entries, ..StepSeries::default() };
    /// assert_eq!(series.quantile(0.5), Some(2.0));
    /// ```
    pub fn quantile(&self, share: f64) -> Option<f64> {
        let longest = self.entries.iter().map(|entry| entry.longest().seconds);
        let longest = longest.max_by(f64::total_cmp)?;
        if let Some(durations) = &self.durations {
            let found = durations::quantile(&durations.seconds, share)?;
            return Some(if share < 1.0 { found.min(longest) } else { longest });
        }
        let mut weighted: Vec<(f64, u64)> = Vec::with_capacity(2 * self.entries.len());
        for entry in &self.entries {
            let longest = entry.longest().seconds;
            weighted.push((longest, 1));
            if entry.count > 1 {
                let others = entry.count - 1;
                weighted.push(((entry.seconds - longest) / others as f64, others));
            }
        }
        weighted.order_by(|one, other| one.0.total_cmp(&other.0));
        let all: u64 = weighted.iter().map(|(_, count)| count).sum();
        let wanted = ((share * all as f64).ceil() as u64).clamp(1, all.max(1));
        let mut seen = 0;
        weighted.into_iter().find_map(|(seconds, count)| {
            seen += count;
            (seen >= wanted).then_some(seconds)
        })
    }
}

fn one() -> u64 {
    1
}

// By reference, as serde asks for.
fn is_one(count: &u64) -> bool {
    *count == 1
}

fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

#[cfg(all(test, not(loom)))]
mod tests;
