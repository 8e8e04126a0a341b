//! Rule `first-batch`: the first batch takes a large part of the run.

use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};

pub(super) static RULE: Rule = Rule {
    name: "first-batch",
    condition: "the first training batch takes many times what others take, and a large part of the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.2,
            why: "the part of the run that the first batch must be beyond what others take",
        },
        Threshold {
            name: "times",
            default: 10.0,
            why: "so many times longer than others it must be: caches and allocators alone make it two or \
              three times as long",
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
            "the report does not tell the first run_training_batch from others: Simple's does, \
             with a trainer",
        );
    };
    let longer = (first - others).max(0.0);
    let evidence = [
        Evidence::new("first batch", duration(first)),
        Evidence::new("mean of the others", duration(others)),
    ];
    if facts.share(longer) < limits[0] || first < limits[1] * others {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "The first batch took {}, {:.0} times what others take ({} of the run).",
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
                "kernels are compiled and tuned there: `[compilation] cache = true` in \
                 `cubecl.toml` keeps those that were compiled from run to run; leave the first \
                 batch out when you compare runs."
            }
            _ => "leave it out when you compare runs: it pays for what later ones have.",
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
