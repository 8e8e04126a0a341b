//! Rule `frequent-validation`: validation takes a large part of a fit.

use mlprof_events::Stage;
use mlprof_events::names::{RUN_TRAINING_EPOCH, VAL_NEXT};

use crate::counted::counted;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "frequent-validation",
    condition: "validation takes a large part of a fit, and runs more often than once per epoch",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.25,
            why: "minimum share of the fit for validation that runs more often than once per \
                  epoch: once per epoch on a tenth of the data takes about 3 %",
        },
        Threshold {
            name: "share-once",
            default: 0.5,
            why: "minimum share of the fit for validation that runs once per epoch, which is often \
                  intended: the finding is then a hint",
        },
    ],
    is_of_time: true,
    examine,
};

/// Number of validation passes and their total time.
struct Validation {
    action: String,
    passes: u64,
    seconds: f64,
}

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    if !matches!(facts.report.header().stage, None | Some(Stage::Fit)) {
        return Outcome::no_inputs("the report does not cover a fit");
    }
    let epochs = facts.action(RUN_TRAINING_EPOCH);
    let Some((validation, epochs)) = validation(facts).zip(epochs) else {
        return Outcome::no_inputs(
            "the report has no complete training epoch or no validation of a trainer",
        );
    };
    // An epoch that is still running may already contain a validation pass.
    let is_open = facts.report.open().iter().any(|open| open.action == RUN_TRAINING_EPOCH);
    let epochs = epochs.calls + u64::from(is_open);
    let part = facts.share(validation.seconds);
    let evidence = [
        Evidence::new("validation", duration(validation.seconds)),
        Evidence::new("share", share(part, 1.0)),
        Evidence::new("passes", grouped(validation.passes)),
        Evidence::new("training epochs", grouped(epochs)),
    ];
    let is_often = validation.passes > epochs;
    if part < limits[usize::from(!is_often)] || validation.passes < 2 {
        return Outcome::healthy(evidence);
    }
    // Required passes: one per epoch if validation runs more often, otherwise one in total.
    let needed = if is_often { epochs } else { 1 };
    let saved = validation.seconds * (1.0 - needed as f64 / validation.passes as f64);
    let often = match is_often {
        true => "more often than once per epoch",
        false => "once per epoch",
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Validation ran {} in {}, {often}, and took {} of the fit ({}).",
            counted(validation.passes, "time", "times"),
            counted(epochs, "epoch", "epochs"),
            duration(validation.seconds),
            share(part, 1.0),
        ),
        evidence: evidence.into(),
        place: Place::action(validation.action),
        cost: facts.cost(saved),
        confidence: if is_often { Confidence::Likely } else { Confidence::Hint },
        remedy: remedy(facts.framework).to_owned(),
    }])
}

/// Returns the passes and the time of validation. burn has one action around it, while mlprof's
/// trainer has several actions inside it.
fn validation(facts: &Facts<'_>) -> Option<Validation> {
    if let Some(whole) = facts.action("run_validation_epoch") {
        return Some(Validation {
            action: whole.name.to_owned(),
            passes: whole.calls,
            seconds: whole.total_seconds,
        });
    }
    let is_inside = |name: &str, hook: &str| {
        name == VAL_NEXT
            || ["validation_step", "val_dataloader"].contains(&hook)
            || hook.starts_with("on_validation_")
    };
    let inside = || facts.actions.iter().filter(|action| is_inside(action.name, action.hook()));
    let starts = inside().find(|action| {
        action.hook() == "on_validation_start" && action.owner().starts_with("[LightningModule]")
    })?;
    let step = inside().find(|action| action.hook() == "validation_step")?;
    // One action transfers the batches of training and validation to the device. Its time is
    // divided by the number of steps.
    let transfer = facts.actions.iter().find(|action| action.hook() == "batch_to_device");
    let transferred = transfer.filter(|transfer| transfer.calls > 0).map_or(0.0, |transfer| {
        transfer.total_seconds * (step.calls as f64 / transfer.calls as f64).min(1.0)
    });
    Some(Validation {
        action: step.name.to_owned(),
        passes: starts.calls,
        seconds: inside().map(|action| action.total_seconds).sum::<f64>() + transferred,
    })
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Burn => {
            "validate on a part of the data or in larger batches: give `SupervisedTraining::new` a \
             `DataLoader` with fewer items."
        }
        Framework::Trainer | Framework::Tch => {
            "validate once per epoch (remove `Trainer::val_check_interval`), on a part of the data \
             (`limit_val_batches`), or in larger batches."
        }
        Framework::Unknown => "validate less often, on a part of the data, or in larger batches.",
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, row, steps};
    use crate::simple::SimpleReport;

    const NAME: &str = "frequent-validation";

    /// Builds a report with 100 steps of 20 ms in 2 epochs, and `passes` validation passes of 0.1
    /// s.
    fn validated(passes: u64) -> SimpleReport {
        let seconds = 0.1 * passes as f64;
        let mut report = steps(100, 0.02);
        report.header.wall_seconds = 2.0 + seconds;
        report.actions.extend([
            row("run_training_epoch", 2, 2.0 + seconds),
            row("[LightningModule]Net.on_validation_start", passes, 0.0),
            row("[LightningModule]Net.val_dataloader", passes, 0.0),
            row("[_EvaluationLoop].val_next", 5 * passes, 0.2 * seconds),
            row("[Strategy]SingleDeviceStrategy.validation_step", 4 * passes, 0.7 * seconds),
            row("[Strategy]SingleDeviceStrategy.batch_to_device", 8 * passes, 0.2 * seconds),
        ]);
        report
    }

    #[test]
    fn validation_every_few_batches_is_found() {
        let finding = found(NAME, validated(50));
        // 48 of the 50 passes are avoidable. All passes together take 5 s.
        close(finding.cost.seconds, 4.8, 0.01);
        assert_eq!(finding.confidence, Confidence::Likely);
        assert!(finding.remedy.contains("val_check_interval"), "{finding:?}");
    }

    #[test]
    fn validation_in_an_epoch_that_was_left_is_not() {
        let mut report = validated(3);
        report.header.wall_seconds = 0.9 * 2.0;
        let open = |action: &str| crate::OpenAction {
            action: action.to_owned(),
            thread: "main".to_owned(),
            elapsed_seconds: 1.0,
        };
        assert!(found_in(&report), "three passes in two epochs");
        report.open.push(open("run_training_epoch"));
        assert!(!found_in(&report), "in three");
    }

    /// Returns `true` if the rule finds something with a lower threshold.
    fn found_in(report: &SimpleReport) -> bool {
        let mut rules = crate::findings::Rules::new();
        rules.set("frequent-validation.share", 0.1).expect("there is such a threshold");
        let findings = rules.apply(&crate::Report::Simple(report.clone()));
        findings.iter().any(|finding| finding.rule == NAME)
    }

    #[test]
    fn validation_once_per_epoch_is_not() {
        healthy(NAME, validated(2));
        healthy(NAME, validated(1));
    }

    #[test]
    fn validation_that_takes_longer_than_training_is_a_hint() {
        let mut report = validated(2);
        report.header.wall_seconds += 6.0;
        let step = report.actions.iter_mut().find(|row| row.action.ends_with("validation_step"));
        step.expect("it").total_seconds += 6.0;
        let finding = found(NAME, report);
        assert_eq!(finding.confidence, Confidence::Hint);
    }

    #[test]
    fn without_validation_there_is_nothing_to_look_at() {
        assert!(missing(NAME, steps(100, 0.02)).contains("no validation"));
    }
}
