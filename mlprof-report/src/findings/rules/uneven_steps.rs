//! Rule `uneven-steps`: some steps take much longer than most.

use mlprof_events::names::{OPTIMIZER_STEP, RUN_TRAINING_BATCH, is_optimizer_update};

use crate::counted::were;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{ActionFacts, Facts};
use crate::findings::long_steps::{LongSteps, own_series, waits_for_data};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::simple::DurationStatistics;
use crate::steps::StepSeries;

pub(super) static RULE: Rule = Rule {
    name: "uneven-steps",
    condition: "steps after the first take so much longer than the median that the excess is a \
                large part of the total",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.15,
            why: "minimum share of all steps that would be saved if no step took longer than the \
                  median; a busy machine alone causes about 5 %",
        },
        Threshold {
            name: "least-steps",
            default: 100.0,
            why: "minimum number of steps, so that a few do not dominate",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let batches = facts.action(RUN_TRAINING_BATCH);
    let batch = batches.and_then(|batch| {
        // Single steps give exact quantiles, which the HTML page also shows. The quantiles of the
        // action come from a histogram.
        let rest = own_series(facts).and_then(distribution).or(batch.rest)?;
        Some(ActionFacts { rest: Some(rest), ..batch })
    });
    let Some((batch, rest)) = batch.and_then(|batch| Some((batch, batch.rest?))) else {
        return Outcome::no_inputs(
            "the report has no distribution of step durations: use the Simple or Tensor profiler \
             with a trainer",
        );
    };
    if (batch.calls as f64) < limits[1] {
        return Outcome::NoInputs(format!("there {} only", were(batch.calls, "step", "steps")));
    }
    let is_update =
        |action: &&ActionFacts| action.hook() == OPTIMIZER_STEP || is_optimizer_update(action.name);
    let optimizer = facts.actions.iter().find(is_update);
    if optimizer.is_some_and(|optimizer| optimizer.calls * 10 < batch.calls * 9) {
        return Outcome::no_inputs("gradients are accumulated, so steps differ by design");
    }
    let all = excess(&batch, rest);
    let part = all / batch.total_seconds;
    let mut evidence = vec![
        Evidence::new("median", duration(rest.p50_seconds)),
        Evidence::new("mean", duration(rest.mean_seconds)),
        Evidence::new("95th percentile", duration(rest.p95_seconds)),
        Evidence::new("longest", duration(rest.max_seconds)),
        Evidence::new("steps", grouped(batch.calls)),
    ];
    if part < limits[0] {
        return Outcome::Healthy(evidence);
    }
    let tail = tail(facts, &batch, all);
    if let Some((action, seconds)) = tail {
        evidence.push(Evidence::new(format!("time in {}", action.name), duration(seconds)));
    }
    let long = LongSteps::of(facts);
    evidence.extend(long.iter().flat_map(LongSteps::evidence));
    let slowest = long.as_ref().and_then(|long| Some(&long.slowest.as_ref()?.0));
    let slowest = slowest.and_then(|name| facts.action(name));
    let place = tail.map_or(slowest, |(action, _)| Some(action));
    let place = place.map_or(RUN_TRAINING_BATCH, |action| action.name);
    let every = long.and_then(|long| long.every);
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Steps are uneven: half of them take at most {}, but the mean is {} and the longest \
             {}; the excess over the median is {} of the total.",
            duration(rest.p50_seconds),
            duration(rest.mean_seconds),
            duration(rest.max_seconds),
            share(part, 1.0),
        ),
        evidence,
        place: Place::action(place),
        cost: facts.cost(all),
        // Inputs of varying length and other programs also make steps uneven.
        confidence: Confidence::Hint,
        remedy: remedy(every),
    }])
}

fn remedy(every: Option<u64>) -> String {
    let every = every
        .map_or_else(String::new, |every| format!("every {every} steps there is extra work; "));
    format!(
        "{every}look at the long steps: inputs of several lengths, new shapes (compiling, tuning), \
         periodic work, or another program on this machine."
    )
}

/// Returns the distribution of all steps except the first one, for reports with single steps.
/// Returns `None` if the steps waited for data. In that case the medians of the parts would be
/// needed, and shared entries do not contain them.
fn distribution(series: &StepSeries) -> Option<DurationStatistics> {
    if waits_for_data(series) {
        return None;
    }
    let series = series.later();
    let all: f64 = series.entries.iter().map(|entry| entry.seconds).sum();
    Some(DurationStatistics {
        min_seconds: series.quantile(0.0)?,
        mean_seconds: all / series.steps.max(1) as f64,
        p50_seconds: series.quantile(0.5)?,
        p50_limits: None,
        p95_seconds: series.quantile(0.95)?,
        max_seconds: series.quantile(1.0)?,
    })
}

/// Returns the time of all calls except the first one beyond the median, in seconds.
fn excess(action: &ActionFacts<'_>, rest: DurationStatistics) -> f64 {
    (rest.mean_seconds - rest.p50_seconds).max(0.0) * action.calls.saturating_sub(1) as f64
}

/// Returns the innermost action inside the batches with most of the excess, and its excess in
/// seconds.
fn tail<'report>(
    facts: &Facts<'report>,
    batch: &ActionFacts<'_>,
    all: f64,
) -> Option<(ActionFacts<'report>, f64)> {
    let inside = facts.actions.iter().filter(|action| {
        action.name != RUN_TRAINING_BATCH
            && action.calls == batch.calls
            && action.total_seconds <= batch.total_seconds
    });
    let with_excess = inside.filter_map(|action| Some((*action, excess(action, action.rest?))));
    let most = with_excess.filter(|(_, excess)| *excess > 0.5 * all && *excess <= 1.05 * all);
    most.min_by(|(one, _), (other, _)| one.total_seconds.total_cmp(&other.total_seconds))
}

#[cfg(test)]
mod tests {
    use crate::TensorReport;
    use crate::finding::Confidence;
    use crate::findings::samples::{action, close, found, healthy, missing, recorded, row, steps};
    use crate::simple::SimpleReport;
    use crate::steps::{SlowestAction, StepEntry, StepSeries};

    const NAME: &str = "uneven-steps";

    /// Builds a series of steps of 20 ms. The backward pass of every tenth step takes `longer` more
    /// seconds.
    fn series(steps: u64, longer: f64) -> StepSeries {
        let entry = |number: u64| {
            let beyond = if number % 10 == 4 { longer } else { 0.0 };
            let name = "[Strategy]SingleDeviceStrategy.backward".to_owned();
            StepEntry {
                number,
                count: 1,
                seconds: 0.02 + beyond,
                data_seconds: 0.001,
                forward_seconds: 0.007,
                backward_seconds: 0.012 + beyond,
                slowest: Some(SlowestAction { name, seconds: 0.012 + beyond }),
                ..StepEntry::default()
            }
        };
        let stage = Some(mlprof_events::Stage::Fit);
        StepSeries { stage, steps, entries: (0..steps).map(entry).collect(), durations: None }
    }

    /// Builds a report with steps of 20 ms. Every tenth step and its backward pass take `longer`
    /// more seconds.
    fn uneven(longer: f64) -> SimpleReport {
        let mut report = steps(200, 0.02);
        report.header.wall_seconds += 20.0 * longer;
        for name in ["run_training_batch", "[Strategy]SingleDeviceStrategy.backward"] {
            let row = report.actions.iter_mut().find(|row| row.action == name).expect("it");
            row.total_seconds += 20.0 * longer;
            let rest = row.rest.as_mut().expect("it");
            rest.mean_seconds += 0.1 * longer;
            rest.p95_seconds += longer;
            rest.max_seconds += longer;
        }
        report
    }

    #[test]
    fn a_tail_is_found_in_its_action() {
        let finding = found(NAME, uneven(0.2));
        close(finding.cost.seconds, 4.0, 0.01);
        assert_eq!(finding.confidence, Confidence::Hint);
        let place = finding.place.action.expect("a place");
        assert_eq!(place, "[Strategy]SingleDeviceStrategy.backward");
    }

    #[test]
    fn the_long_steps_are_named_with_what_made_them_long() {
        let mut report = uneven(0.2);
        report.step_series.push(series(200, 0.2));
        let finding = found(NAME, report);
        let seen = |what: &str| {
            let seen = finding.evidence.iter().find(|evidence| evidence.what == what);
            seen.map(|evidence| evidence.value.as_str())
        };
        assert_eq!(
            seen("steps longer than 1.5 times the median"),
            Some("20 of 200: 4, 14, 24, 34, 44, … (every 10)")
        );
        assert!(seen("longest part").is_some_and(|part| part.starts_with("backward, 4.00 s")));
        assert!(seen("slowest action in long steps").is_some_and(|name| name.contains("backward")));
        assert!(finding.remedy.starts_with("every 10 steps"), "{finding:?}");
    }

    #[test]
    fn neither_the_first_step_nor_one_that_is_long_by_chance_hides_a_rhythm() {
        let mut report = uneven(0.2);
        let mut steps = series(200, 0.2);
        for number in [0, 57] {
            steps.entries[number].seconds += 0.3;
        }
        report.step_series.push(steps);
        let finding = found(NAME, report);
        let long =
            finding.evidence.iter().find(|seen| seen.what.starts_with("steps longer than 1.5"));
        let long = long.expect("which steps are long").value.as_str();
        assert_eq!(long, "21 of 200: 4, 14, 24, 34, 44, … (every 10)");
        assert!(finding.remedy.starts_with("every 10 steps"), "{finding:?}");
        let mut report = uneven(0.2);
        let mut steps = series(200, 0.0);
        for number in [3, 4, 9, 30, 31, 120] {
            steps.entries[number].seconds += 0.7;
        }
        report.step_series.push(steps);
        assert!(found(NAME, report).remedy.starts_with("look at"), "there is no rhythm");
    }

    #[test]
    fn recorded_steps_are_looked_at_one_by_one() {
        let recorded = |longer: f64| -> TensorReport {
            let mut report = recorded(vec![action("run_training_batch", 200, 4.0 + 20.0 * longer)]);
            report.step_series.push(series(200, longer));
            report.recorded_seconds = Some(4.0 + 20.0 * longer);
            report
        };
        close(found(NAME, recorded(0.2)).cost.seconds, 4.0, 0.01);
        healthy(NAME, recorded(0.01));
        let mut waits = recorded(0.2);
        waits.step_series[0].entries.iter_mut().for_each(|entry| entry.data_seconds = 0.01);
        assert!(missing(NAME, waits).contains("distribution"));
    }

    /// Checks that step durations remain known if more than 4,096 steps share entries.
    #[test]
    fn long_runs_are_as_uneven_as_short_ones() {
        let run = |steps: u64| {
            let mut log = crate::steps::log::StepLog::default();
            for number in 0..steps {
                let elapsed = if number % 10 == 4 { 400_000 } else { 100_000 + number % 7 * 100 };
                log.add(crate::steps::log::StepTicks {
                    number,
                    started: number * 100_000,
                    elapsed,
                    parts: crate::steps::log::StepParts::default(),
                    slowest: None,
                });
            }
            let mut report = crate::findings::samples::steps(steps, 0.13);
            report.step_series =
                vec![log.series(report.header.stage, 0, |ticks| ticks as f64 * 1e-6)];
            report
        };
        for steps in [4_000, 100_000] {
            let finding = found(NAME, run(steps));
            let median = finding.evidence.iter().find(|seen| seen.what == "median").expect("it");
            assert!(median.value.starts_with("10"), "{steps}: {median:?}");
            close(finding.cost.seconds, 0.03 * steps as f64, 0.002 * steps as f64);
        }
    }

    #[test]
    fn even_steps_are_not_and_neither_is_accumulation() {
        healthy(NAME, uneven(0.01));
        let mut report = uneven(0.2);
        report.actions.push(row("[LightningModule]Net.optimizer_step", 20, 4.0));
        assert!(missing(NAME, report).contains("accumulated"));
        assert!(missing(NAME, steps(60, 0.02)).contains("60 steps"));
    }
}
