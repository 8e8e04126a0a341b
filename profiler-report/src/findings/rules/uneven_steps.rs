//! Some steps take much longer than most.

use profiler_events::names::{OPTIMIZER_STEP, RUN_TRAINING_BATCH};

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{ActionFacts, Facts};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::simple::DurationStatistics;

pub(super) struct UnevenSteps;

const THRESHOLDS: &[Threshold] = &[
    Threshold {
        name: "share",
        default: 0.15,
        why: "the part of all steps that would be gone if each took what half of them take at most; \
              a busy machine alone makes some 5 %",
    },
    Threshold {
        name: "least-steps",
        default: 100.0,
        why: "so many steps there must be, that a few do not decide",
    },
];

impl Rule for UnevenSteps {
    fn name(&self) -> &'static str {
        "uneven-steps"
    }

    fn condition(&self) -> &'static str {
        "some steps, not the first, take so much longer than the median that it is a large part of all"
    }

    fn thresholds(&self) -> &'static [Threshold] {
        THRESHOLDS
    }

    fn examine(&self, facts: &Facts<'_>, limits: &[f64]) -> Outcome {
        let batches = facts.action(RUN_TRAINING_BATCH);
        let Some((batch, rest)) = batches.and_then(|batch| Some((batch, batch.rest?))) else {
            return Outcome::no_inputs(
                "the report does not say how the durations of run_training_batch are distributed: \
                 Simple's does, with a trainer",
            );
        };
        if (batch.calls as f64) < limits[1] {
            return Outcome::NoInputs(format!("there were {} steps only", grouped(batch.calls)));
        }
        let optimizer = facts.actions.iter().find(|action| action.hook() == OPTIMIZER_STEP);
        if optimizer.is_some_and(|optimizer| optimizer.calls * 10 < batch.calls * 9) {
            return Outcome::no_inputs("gradients are accumulated: steps differ by what they do");
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
            evidence.push(Evidence::new(format!("of it in {}", action.name), duration(seconds)));
        }
        let place = tail.map_or(RUN_TRAINING_BATCH, |(action, _)| action.name);
        Outcome::Found(vec![Finding {
            rule: self.name().to_owned(),
            sentence: format!(
                "Steps are uneven: half of them take at most {}, but the mean is {} and the longest \
                 {}; what is beyond the median is {} of all.",
                duration(rest.p50_seconds),
                duration(rest.mean_seconds),
                duration(rest.max_seconds),
                share(part, 1.0),
            ),
            evidence,
            place: Place::action(place),
            cost: facts.cost(all),
            // Inputs of several lengths, or other programs, make steps uneven, too.
            confidence: Confidence::Hint,
            remedy: "look at what the long ones do: inputs of several lengths, shapes that are seen \
                     for the first time (compiling, tuning), work that is done every so many steps, or \
                     another program on this machine."
                .to_owned(),
        }])
    }
}

/// What all calls but the first took beyond the median.
fn excess(action: &ActionFacts<'_>, rest: DurationStatistics) -> f64 {
    (rest.mean_seconds - rest.p50_seconds).max(0.0) * action.calls.saturating_sub(1) as f64
}

/// The innermost action inside of batches that has most of the excess.
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
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, row, steps};
    use crate::simple::SimpleReport;

    const NAME: &str = "uneven-steps";

    /// Every tenth step, and its backward, takes so much longer than the others' 20 ms.
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
    fn even_steps_are_not_and_neither_is_accumulation() {
        healthy(NAME, uneven(0.01));
        let mut report = uneven(0.2);
        report.actions.push(row("[LightningModule]Net.optimizer_step", 20, 4.0));
        assert!(missing(NAME, report).contains("accumulated"));
        assert!(missing(NAME, steps(60, 0.02)).contains("60 steps"));
    }
}
