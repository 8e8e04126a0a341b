//! Steps of the training loop, and what their time went into.

use super::rows::{Rows, share};
use super::spread::{Sample, quantile};
use super::{Limits, Subject};
use crate::label;
use crate::steps::{PARTS, PartSeconds, StepEntry, StepSeries};
use profiler_events::Stage;

/// `stage`: that of the report, which its own steps need not say. `seconds`: all that the report covers.
pub(super) fn append(rows: &mut Rows, series: &[StepSeries], stage: Option<Stage>, seconds: f64) {
    for series in series {
        let inside = series.stage.filter(|_| series.stage != stage);
        let whole: PartSeconds = |entry| entry.seconds;
        let parts = PARTS.into_iter().map(|(name, part)| (format!("step, {name}"), part));
        for (name, part) in [("step".to_owned(), whole)].into_iter().chain(parts) {
            let of_one = |entry: &StepEntry| part(entry) / entry.count.max(1) as f64;
            let numbers: Vec<f64> = series.entries.iter().map(of_one).collect();
            let sum: f64 = series.entries.iter().map(part).sum();
            if sum > 0.0
                && let Some(sample) = Sample::of_series(&numbers, share(sum, seconds))
            {
                let name = label::with_stage(inside, &name);
                rows.add(Subject::Steps, name, Sample { calls: series.steps, ..sample });
            }
        }
        let all: Vec<f64> = series.entries.iter().map(StepEntry::mean_seconds).collect();
        let sum: f64 = series.entries.iter().map(|entry| entry.seconds).sum();
        if let Some(slow) = quantile(&all, 0.95) {
            let name = label::with_stage(inside, "step, 95 % took no longer");
            rows.add(Subject::Steps, name, Sample::alone(slow, series.steps, share(sum, seconds)));
        }
    }
    let own = series.iter().find(|series| series.stage.is_none() || series.stage == stage);
    rows.drift = own.and_then(drift);
}

/// What the medians of the parts of a run are of the median of all its steps.
fn drift(series: &StepSeries) -> Option<Limits> {
    let all: Vec<f64> = series.entries.iter().map(StepEntry::mean_seconds).collect();
    let median = quantile(&all, 0.5).filter(|median| *median > 0.0)?;
    let Limits { low, high } = Limits::of_drift(&all)?;
    Some(Limits { low: (low / median).min(1.0), high: (high / median).max(1.0) })
}
