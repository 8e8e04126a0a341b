//! Detection of steps that took much longer than the others, with their frequency and cause. It
//! uses the same steps and median as the HTML page, unless the steps waited for data.

use super::facts::Facts;
use crate::finding::Evidence;
use crate::number::{duration, grouped};
use crate::quantile::median_of_floats;
use crate::steps::{PARTS, PartSeconds, StepEntry, StepSeries};
use mlprof_events::OrderExt;

/// A step is long if it took at least this many times the median.
const TIMES: f64 = 1.5;

/// Share of the distances between long steps that must be equal to report a regular interval. One
/// step that is long by chance splits one distance into two others.
const REGULAR: f64 = 0.75;

/// Maximum number of step numbers listed as evidence.
const NAMED: usize = 5;

/// Index of the data part. Other rules examine the time spent waiting for data.
const DATA: usize = 0;

/// Long steps, by their time without waiting for data.
pub(super) struct LongSteps {
    /// Number of all known steps.
    steps: u64,
    /// Step numbers, in ascending order.
    numbers: Vec<u64>,
    /// Distance between consecutive long steps, if it is nearly constant.
    pub(super) every: Option<u64>,
    /// Part of the step with the most time beyond its own median, and this time in seconds.
    made_long_by: Option<(&'static str, f64)>,
    /// Name with the most self time in the long steps, and the sum of this time in seconds.
    pub(super) slowest: Option<(String, f64)>,
}

impl LongSteps {
    /// Finds the long steps. Returns `None` if the report has no single steps, or if none was long.
    pub(super) fn of(facts: &Facts<'_>) -> Option<Self> {
        let series = own_series(facts)?;
        // The first step is normally long, and another rule examines it.
        let later_steps = series.later();
        let later = || later_steps.entries.iter().filter(|entry| entry.longest().number > 0);
        let seconds = if waits_for_data(series) { worked } else { whole };
        // If steps share an entry, only the longest step of each entry is known alone. The median
        // of those would be too high.
        let median = match series.has_shared_entries() {
            true => later_steps.quantile(0.5),
            false => median(later().map(seconds)),
        }?;
        let long = || later().filter(|entry| seconds(entry) >= TIMES * median);
        let numbers: Vec<u64> = long().map(|entry| entry.longest().number).collect();
        if numbers.is_empty() {
            return None;
        }
        Some(Self {
            steps: series.steps,
            every: distance(&numbers),
            numbers,
            made_long_by: made_long_by(series, long()),
            slowest: slowest(long()),
        })
    }

    /// Returns the evidence about the long steps.
    pub(super) fn evidence(&self) -> Vec<Evidence> {
        let named: Vec<_> = self.numbers.iter().take(NAMED).map(u64::to_string).collect();
        let more = if self.numbers.len() > NAMED { ", …" } else { "" };
        let every = self.every.map_or_else(String::new, |every| format!(" (every {every})"));
        let long = format!(
            "{} of {}: {}{more}{every}",
            grouped(self.numbers.len() as u64),
            grouped(self.steps),
            named.join(", ")
        );
        let mut evidence =
            vec![Evidence::new(format!("steps longer than {TIMES} times the median"), long)];
        if let Some((part, seconds)) = self.made_long_by {
            let value = format!("{part}, {} above its median", duration(seconds));
            evidence.push(Evidence::new("longest part", value));
        }
        if let Some((name, seconds)) = &self.slowest {
            let value = format!("{name}, {} in total", duration(*seconds));
            evidence.push(Evidence::new("slowest action in long steps", value));
        }
        evidence
    }
}

/// Returns the steps of the reported stage itself.
pub(super) fn own_series<'report>(facts: &Facts<'report>) -> Option<&'report StepSeries> {
    let stage = facts.report.header().stage;
    let mut all = facts.report.step_series().iter();
    all.find(|series| series.stage.is_none() || series.stage == stage)
}

/// Returns `true` if the steps waited so long for data that this time must be excluded.
pub(super) fn waits_for_data(series: &StepSeries) -> bool {
    let data: f64 = series.entries.iter().map(|entry| entry.data_seconds).sum();
    let all: f64 = series.entries.iter().map(|entry| entry.seconds).sum();
    data > 0.1 * all
}

/// Returns the duration of an entry's longest step, in seconds.
fn whole(entry: &StepEntry) -> f64 {
    entry.longest().seconds
}

/// Returns the duration of an entry's longest step in seconds. It excludes the wait for data if the
/// entry has only this step.
fn worked(entry: &StepEntry) -> f64 {
    match entry.count {
        1 => entry.seconds - entry.data_seconds,
        _ => entry.longest().seconds,
    }
}

fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    median_of_floats(values.collect())
}

/// Returns the distance between consecutive numbers if it is nearly constant and there are enough
/// of them.
fn distance(numbers: &[u64]) -> Option<u64> {
    let mut all: Vec<u64> = numbers.windows(2).map(|pair| pair[1] - pair[0]).collect();
    all.order();
    let usual = *all.get(all.len() / 2)?;
    let same = all.iter().filter(|distance| **distance == usual).count();
    let is_regular = same >= 2 && same as f64 >= REGULAR * all.len() as f64;
    (usual > 1 && is_regular).then_some(usual)
}

/// Returns the part with the most time beyond its median. It uses only entries with one step,
/// because shared entries do not separate the parts of single steps.
fn made_long_by<'steps>(
    series: &StepSeries,
    long: impl Iterator<Item = &'steps StepEntry> + Clone,
) -> Option<(&'static str, f64)> {
    let usual = |part: PartSeconds| {
        median(series.entries.iter().map(|entry| part(entry) / entry.count.max(1) as f64))
    };
    let beyond = PARTS.iter().skip(DATA + 1).filter_map(|(name, part)| {
        let usual = usual(*part)?;
        let alone = long.clone().filter(|entry| entry.count == 1);
        Some((*name, alone.map(|entry| (part(entry) - usual).max(0.0)).sum::<f64>()))
    });
    let most = beyond.max_by(|(_, one), (_, other)| one.total_cmp(other));
    most.filter(|(_, seconds)| *seconds > 0.0)
}

fn slowest<'steps>(long: impl Iterator<Item = &'steps StepEntry>) -> Option<(String, f64)> {
    let mut named: Vec<(String, f64)> = Vec::new();
    for slowest in long.filter_map(|entry| entry.slowest.as_ref()) {
        match named.iter_mut().find(|(name, _)| *name == slowest.name) {
            Some((_, seconds)) => *seconds += slowest.seconds,
            None => named.push((slowest.name.clone(), slowest.seconds)),
        }
    }
    named.into_iter().max_by(|(_, one), (_, other)| one.total_cmp(other))
}
