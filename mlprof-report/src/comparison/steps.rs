//! Comparison rows of the training steps and the parts of their time.

use super::Subject;
use super::dependence::Dependence;
use super::rows::{Rows, share};
use super::spread::{Sample, Spread, factor_of_entries};
use crate::label;
use crate::steps::{PARTS, StepEntry, StepSeries};
use mlprof_events::Stage;

/// Appends the step rows. `stage` is the report's stage. Series of other stages carry their stage
/// in the row name. `seconds` is the time that the report covers.
pub(super) fn append(rows: &mut Rows, series: &[StepSeries], stage: Option<Stage>, seconds: f64) {
    for series in series {
        let inside = series.stage.filter(|_| series.stage != stage);
        let dependence = append_series(rows, series, inside, seconds);
        let name = label::with_stage(inside, "step");
        let step = rows.samples.get(&(Subject::Steps, name)).map(|sample| sample.spread);
        if let (None, Some(Spread::Known(step))) = (inside, step) {
            rows.steps.get_or_insert((dependence, step));
        }
    }
}

/// Appends the rows of one series and returns the serial dependence of its steps.
fn append_series(
    rows: &mut Rows,
    series: &StepSeries,
    inside: Option<Stage>,
    seconds: f64,
) -> Dependence {
    let means = |part: &dyn Fn(&StepEntry) -> f64| -> Vec<f64> {
        let of_one = |entry: &StepEntry| part(entry) / entry.count.max(1) as f64;
        series.entries.iter().map(of_one).collect()
    };
    let whole = means(&|entry| entry.seconds);
    let parts = PARTS.map(|(_, part)| means(&part));
    let dependence = Dependence::of(parts.iter().chain([&whole]).map(Vec::as_slice));
    let factor = factor_of_entries(series, &whole);
    // If steps share an entry, only the histograms contain single steps.
    let sample = |numbers: &[f64], place: Option<usize>, share: f64| match &series.durations {
        Some(durations) => {
            let single = place.map_or(&durations.seconds[..], |place| durations.part(place));
            Sample::of_histogram(single, numbers, share, dependence, factor)
        }
        None if series.has_shared_entries() => {
            let sum: f64 = series.entries.iter().map(|entry| entry.seconds).sum();
            Some(Sample::alone(sum / series.steps.max(1) as f64, series.steps, share))
                .filter(|_| place.is_none())
        }
        None => Sample::of_series(numbers, share, dependence),
    };
    let sum = |part: &dyn Fn(&StepEntry) -> f64| series.entries.iter().map(part).sum::<f64>();
    let all = share(sum(&|entry| entry.seconds), seconds);
    let mut add = |name: &str, sample: Option<Sample>| {
        if let Some(sample) = sample {
            let sample = Sample { calls: series.steps, ..sample };
            rows.add(Subject::Steps, label::with_stage(inside, name), sample);
        }
    };
    if !series.entries.is_empty() {
        add("step", sample(&whole, None, all));
    }
    for (place, ((name, part), numbers)) in PARTS.iter().zip(&parts).enumerate() {
        let part = sum(part);
        if part > 0.0 {
            add(&format!("step, {name}"), sample(numbers, Some(place), share(part, seconds)));
        }
    }
    if series.durations.is_some() || !series.has_shared_entries() {
        let sample = Sample::of_slow_steps(series, all, dependence, factor);
        add("step, 95 % took no longer", sample);
    }
    dependence
}
