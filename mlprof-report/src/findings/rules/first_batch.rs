//! Rule `first-batch`: the first batch takes a large part of the run.

use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};

pub(super) static RULE: Rule = Rule {
    name: "first-batch",
    condition: "the first training batch takes many times as long as others, and a large part of \
                the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.2,
            why: "minimum share of the run for the excess time of the first batch",
        },
        Threshold {
            name: "times",
            default: 10.0,
            why: "minimum ratio to the mean of the other batches: caches and allocators alone \
                  cause a ratio of two or three",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let batch = facts.action(RUN_TRAINING_BATCH);
    let known = batch.and_then(|batch| Some((batch.first_seconds?, batch.rest?.mean_seconds)));
    let known = known.filter(|(_, others)| *others > 0.0);
    let Some((first, others)) = known else {
        return Outcome::no_inputs(
            "the report does not separate the first run_training_batch from the others: use the \
             Simple profiler with a trainer",
        );
    };
    let longer = (first - others).max(0.0);
    let evidence = [
        Evidence::new("first batch", duration(first)),
        Evidence::new("mean of other batches", duration(others)),
    ];
    if facts.share(longer) < limits[0] || first < limits[1] * others {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "The first batch took {}, {:.0} times as long as the others ({} of the run).",
            duration(first),
            first / others,
            share(facts.share(longer), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::action(RUN_TRAINING_BATCH),
        cost: facts.cost(longer),
        confidence: Confidence::Hint,
        remedy: match facts.framework {
            Framework::Burn => {
                "keep compiled kernels between runs (`[compilation] cache = true` in \
                 `cubecl.toml`): the first batch compiles and tunes them; exclude it when you \
                 compare runs."
            }
            _ => "exclude it when you compare runs: it includes the setup for later batches.",
        }
        .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, missing, steps};
    use crate::simple::SimpleReport;

    const NAME: &str = "first-batch";

    fn first(seconds: f64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.wall_seconds += seconds;
        report.actions[0].first_seconds = seconds;
        report.actions[0].total_seconds += seconds;
        report
    }

    #[test]
    fn a_batch_that_compiles_is_found_and_a_cold_one_is_not() {
        close(found(NAME, first(3.0)).cost.seconds, 2.98, 0.001);
        healthy(NAME, first(0.06));
        let mut report = first(3.0);
        report.actions[0].rest = None;
        assert!(missing(NAME, report).contains("first"));
    }
}
