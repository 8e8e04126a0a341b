//! Duration of each step, and the parts of its time.

pub(crate) mod durations;
pub(crate) mod log;

use serde::Serialize;

#[doc(hidden)]
pub use self::durations::{DurationBucket, StepDurations};
use crate::value::report_value;
use mlprof_events::OrderExt;
use mlprof_events::Stage;

/// Maximum number of entries of a series, independent of the number of steps.
#[doc(hidden)]
pub const MOST_ENTRIES: usize = 4096;

report_value! {
/// Steps of one stage in chronological order. These are the training steps, or the validation runs
/// inside the training with one entry per run.
///
/// Past [`MOST_ENTRIES`] steps neighbours share an entry, two and two, then four and four. What the
/// longest of them was is kept, so that one slow step among a million is still seen, and single
/// steps are counted in histograms.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepSeries from StepSeriesParts {
    /// Stage of the steps. `None` outside of any stage.
    pub stage: Option<Stage>,
    /// Number of steps in the entries.
    pub steps: u64,
    /// Entries in chronological order.
    pub entries: Vec<StepEntry>,
    /// Histograms of single steps, if steps share entries. `None` in reports of versions that did
    /// not record them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub durations: Option<StepDurations>,
}
}

report_value! {
/// One step, or a few consecutive steps. Times are in seconds, and times that are omitted in JSON
/// are 0.
///
/// The parts are those of the thread that runs the loop. They add up to `seconds`.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct StepEntry from StepEntryParts {
    /// Number of the first step, from 0 in its stage.
    pub number: u64,
    /// Number of steps in this entry.
    #[serde(default = "one", skip_serializing_if = "is_one")]
    pub count: u64,
    /// Start of the first step in seconds, relative to the start of the reported stage.
    pub start_seconds: f64,
    /// Total duration of the steps in seconds.
    pub seconds: f64,
    /// Time spent waiting for data, in seconds.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub data_seconds: f64,
    /// Time from the batch to the loss, in seconds. If a framework computes both passes at once, it
    /// includes the backward pass.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub forward_seconds: f64,
    /// Time from the loss to the gradients, in seconds.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub backward_seconds: f64,
    /// Time from the gradients to the new parameters, in seconds.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub optimizer_seconds: f64,
    /// In collectives, as `all_reduce_gradients`, in which processes wait for each other.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub collective_seconds: f64,
    /// Remaining time in seconds: moving batches, callbacks, logging, and work between epochs.
    #[serde(default, skip_serializing_if = "is_nothing")]
    pub other_seconds: f64,
    /// Longest of the steps. `None` if there is only one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub longest: Option<LongestStep>,
    /// Action with the longest self time in the longest step, if known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slowest: Option<SlowestAction>,
}
}

/// Longest of the steps of one [`StepEntry`].
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct LongestStep {
    /// Number of the step, from 0 in its stage.
    pub number: u64,
    /// Duration of the step in seconds.
    pub seconds: f64,
}

/// Action with the longest self time in a step.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct SlowestAction {
    /// Name of the action, op or function.
    pub name: String,
    /// Self time in this step, in seconds.
    pub seconds: f64,
}

/// Function that returns the time of one part of a step, in seconds.
pub(crate) type PartSeconds = fn(&StepEntry) -> f64;

/// Parts of a step's time in chronological order, each with its name. They add up to the whole
/// step.
pub(crate) const PARTS: [(&str, PartSeconds); 6] = [
    ("data", |entry| entry.data_seconds),
    ("forward", |entry| entry.forward_seconds),
    ("backward", |entry| entry.backward_seconds),
    ("collectives", |entry| entry.collective_seconds),
    ("optimizer", |entry| entry.optimizer_seconds),
    ("other", |entry| entry.other_seconds),
];

impl StepEntry {
    /// Returns the longest step of the entry.
    #[doc(hidden)]
    pub fn longest(&self) -> LongestStep {
        self.longest.unwrap_or(LongestStep { number: self.number, seconds: self.seconds })
    }

    /// Returns the mean duration of the entry's steps, in seconds.
    #[doc(hidden)]
    pub fn mean_seconds(&self) -> f64 {
        self.seconds / self.count.max(1) as f64
    }
}

impl StepEntry {
    /// Adds the steps of the following entry to this one.
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
    /// Returns the same steps in at most `entries` entries, which neighbouring steps share.
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

    /// Returns `true` if several steps share an entry.
    pub(crate) fn has_shared_entries(&self) -> bool {
        self.entries.iter().any(|entry| entry.count > 1)
    }

    /// Returns all steps except the first one. The first step includes compilation, allocation and
    /// thread creation, so it is not representative. If the first entry has several steps, it is
    /// kept, because its first step is not known alone.
    pub(crate) fn later(&self) -> Self {
        let is_later = |entry: &&StepEntry| entry.number > 0 || entry.count > 1;
        let entries: Vec<StepEntry> = self.entries.iter().filter(is_later).cloned().collect();
        let steps = self.steps - (self.entries.len() - entries.len()) as u64;
        Self { stage: self.stage, steps, entries, durations: self.durations.clone() }
    }

    /// Returns [all steps except the first one](Self::later), or the first one if it is alone.
    pub(crate) fn steady(&self) -> Self {
        let later = self.later();
        if later.entries.is_empty() { self.clone() } else { later }
    }

    /// Returns the quantile `share` of the step durations, in seconds. 0.5 is the median. If steps
    /// share entries, the result is within 1.6 % of the exact value. In reports of versions without
    /// [histograms](Self::durations), all steps of an entry except its longest count with their
    /// mean. Returns `None` without steps.
    ///
    /// ```
    /// use mlprof_core::report::steps::{StepEntry, StepSeries};
    ///
    /// let mut series = StepSeries::default();
    /// for seconds in [2.0, 1.0, 9.0] {
    ///     let mut entry = StepEntry::default();
    ///     (entry.count, entry.seconds) = (1, seconds);
    ///     series.entries.push(entry);
    /// }
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

// serde requires a reference.
fn is_one(count: &u64) -> bool {
    *count == 1
}

fn is_nothing(seconds: &f64) -> bool {
    *seconds == 0.0
}

#[cfg(all(test, not(loom)))]
mod tests;
