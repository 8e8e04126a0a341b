//! Rule `checkpoints`: saving checkpoints takes a large part of a fit.

use mlprof_events::names::SAVE_CHECKPOINT;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "checkpoints",
    condition: "saving checkpoints takes a large part of the run",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the run for saving checkpoints",
    }],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(saving) = facts.action(SAVE_CHECKPOINT) else {
        return Outcome::no_inputs("the report has no action save_checkpoint");
    };
    let part = facts.share(saving.total_seconds);
    let evidence = [
        Evidence::new("saving", duration(saving.total_seconds)),
        Evidence::new("share", share(part, 1.0)),
        Evidence::new("checkpoints", grouped(saving.calls)),
    ];
    // The last checkpoint is always needed, so a single one is not a finding.
    if part < limits[0] || saving.calls < 2 {
        return Outcome::healthy(evidence);
    }
    let saved = saving.total_seconds * (1.0 - 1.0 / saving.calls as f64);
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Saving {} checkpoints took {} ({}).",
            grouped(saving.calls),
            duration(saving.total_seconds),
            share(part, 1.0)
        ),
        evidence: evidence.into(),
        place: Place::action(saving.name),
        cost: facts.cost(saved),
        confidence: Confidence::Likely,
        remedy: match facts.framework {
            Framework::Burn => {
                "keep only the best checkpoints (`with_checkpointing_strategy`), or write to a \
                 faster disk: the measured time passes records to writer threads, which block \
                 while the disk is behind."
            }
            _ => {
                "save less often, save fewer records, or use a faster disk; alternatively write a \
                 copy on a separate thread."
            }
        }
        .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, missing, row, steps};
    use crate::simple::SimpleReport;

    const NAME: &str = "checkpoints";

    fn saved(calls: u64, seconds: f64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.wall_seconds = 2.0 + seconds;
        report.actions.push(row("save_checkpoint", calls, seconds));
        report
    }

    #[test]
    fn checkpoints_that_take_as_long_as_training_are_found() {
        let finding = found(NAME, saved(20, 2.0));
        close(finding.cost.seconds, 1.9, 0.01);
        close(finding.cost.share, 0.475, 0.01);
    }

    #[test]
    fn a_few_are_not_and_neither_is_the_only_one() {
        healthy(NAME, saved(3, 0.05));
        healthy(NAME, saved(1, 2.0));
        assert!(missing(NAME, steps(100, 0.02)).contains("save_checkpoint"));
    }
}
