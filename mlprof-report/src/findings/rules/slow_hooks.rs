//! Rule `slow-hooks`: hooks that run for every batch delay training, such as metrics, logging or a
//! renderer.

use std::collections::BTreeMap;

use crate::counted::{counted, were};
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{ActionFacts, Facts};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, share};

pub(super) static RULE: Rule = Rule {
    name: "slow-hooks",
    condition: "the per-batch hooks of a callback or of the module take a large part of the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the run for the hooks of one type: observing a training should \
                  cost little",
        },
        Threshold {
            name: "least-steps",
            default: 20.0,
            why: "minimum number of steps, so that a single hook whose thread lost its core does \
                  not dominate",
        },
    ],
    is_of_time: true,
    examine,
};

/// burn's event processor, which feeds metrics, loggers and the renderer.
const EVENT_PROCESSOR: &str = "[Callback]EventProcessor";

/// Action that waits until the event processor's thread has finished all its work.
const FLUSH_EVENTS: &str = "flush_events";

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(steps) = facts.steps else { return Outcome::no_inputs(super::NO_LOOP) };
    if (steps as f64) < limits[1] {
        return Outcome::NoInputs(format!("there {} only", were(steps, "step", "steps")));
    }
    let mut owners: BTreeMap<&str, Vec<&ActionFacts<'_>>> = BTreeMap::new();
    for action in facts.actions.iter().filter(|action| is_hook_of_batches(action, steps)) {
        owners.entry(action.owner()).or_default().push(action);
    }
    // If the event processor's thread is behind, the thread that sends the next event waits for it.
    // This also happens in validation.
    if let Some(hooks) = owners.get_mut(EVENT_PROCESSOR) {
        let waits = |action: &&ActionFacts<'_>| {
            action.owner() == EVENT_PROCESSOR || action.name == FLUSH_EVENTS
        };
        *hooks = facts.actions.iter().filter(waits).collect();
    }
    if owners.is_empty() {
        return Outcome::no_inputs("the report has no hooks of callbacks or of a module");
    }
    // Averaging gradients is part of training and runs in these hooks, so its time does not count.
    let exchanges = facts.actions.iter().filter(|action| action.waits_for_others());
    let exchanging: f64 = exchanges.map(|action| action.total_seconds).sum();
    let seconds = |hooks: &[&ActionFacts<'_>]| -> f64 {
        let of_gradients: f64 =
            hooks.iter().filter(|hook| is_of_gradients(hook)).map(|hook| hook.total_seconds).sum();
        let all: f64 = hooks.iter().map(|action| action.total_seconds).sum();
        all - exchanging.min(of_gradients)
    };
    let (slow, quick): (Vec<_>, Vec<_>) =
        owners.into_iter().partition(|(_, hooks)| facts.share(seconds(hooks)) >= limits[0]);
    if slow.is_empty() {
        let most =
            quick.into_iter().max_by(|one, other| seconds(&one.1).total_cmp(&seconds(&other.1)));
        let evidence = most.map(|(owner, hooks)| {
            Evidence::new(format!("hooks of {owner}"), share(facts.share(seconds(&hooks)), 1.0))
        });
        return Outcome::Healthy(evidence.into_iter().collect());
    }
    let finding = |(owner, hooks): (&str, Vec<&ActionFacts<'_>>)| {
        let all = seconds(&hooks);
        let part = share(facts.share(all), 1.0);
        let longest =
            hooks.iter().max_by(|one, other| one.total_seconds.total_cmp(&other.total_seconds));
        Finding {
            rule: RULE.name.to_owned(),
            sentence: format!("Hooks of {owner} delayed training by {} ({part}).", duration(all)),
            evidence: hooks
                .iter()
                .map(|hook| {
                    let value = format!(
                        "{} in {}",
                        duration(hook.total_seconds),
                        counted(hook.calls, "call", "calls")
                    );
                    Evidence::new(hook.name, value)
                })
                .collect(),
            place: longest.map(|hook| Place::action(hook.name)).unwrap_or_default(),
            cost: facts.cost(all),
            confidence: Confidence::Likely,
            remedy: remedy(owner).to_owned(),
        }
    };
    Outcome::Found(slow.into_iter().map(finding).collect())
}

/// Returns `true` if it is a hook that runs for more than half of the training batches.
fn is_hook_of_batches(action: &ActionFacts<'_>, steps: u64) -> bool {
    let is_hooks = ["[Callback]", "[LightningModule]"];
    let is_of_training = ["on_train_batch_", "on_before_", "on_after_"];
    is_hooks.iter().any(|kind| action.owner().starts_with(kind))
        && is_of_training.iter().any(|hook| action.hook().starts_with(hook))
        && action.calls * 2 > steps
}

/// Returns `true` for hooks that run after the gradients are computed and before they are used.
fn is_of_gradients(hook: &ActionFacts<'_>) -> bool {
    ["on_after_backward", "on_before_optimizer_step"].contains(&hook.hook())
}

fn remedy(owner: &str) -> &'static str {
    match owner {
        EVENT_PROCESSOR => {
            "the thread of metrics and renderer is behind: use fewer metrics in training, a \
             renderer that draws less (`.renderer(…)`), or loggers that write less."
        }
        _ => {
            "run it only every few batches, or move the writing to a separate thread; keep files \
             open and do not flush them each time."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, missing, row, steps};
    use crate::simple::SimpleReport;

    const NAME: &str = "slow-hooks";
    const HOOK: &str = "[Callback]Logger.on_train_batch_end";

    fn hooked(calls: u64, seconds: f64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.wall_seconds = 2.0 + seconds;
        report.actions.push(row(HOOK, calls, seconds));
        report.actions.push(row("[Callback]Bar.on_train_batch_end", 100, 0.001));
        report
    }

    #[test]
    fn a_logger_that_flushes_each_batch_is_found() {
        let mut report = hooked(100, 1.0);
        report.actions.push(row("[Callback]Logger.on_train_batch_start", 100, 0.2));
        let finding = found(NAME, report);
        close(finding.cost.seconds, 1.2, 0.001);
        assert_eq!(finding.place.action.as_deref(), Some(HOOK));
        assert!(finding.sentence.contains("[Callback]Logger"), "{finding:?}");
    }

    #[test]
    fn quick_hooks_and_those_of_epochs_are_not() {
        healthy(NAME, hooked(100, 0.01));
        healthy(NAME, hooked(2, 1.0));
        let mut fetching = steps(100, 0.02);
        fetching.actions.retain(|row| row.action == "run_training_batch");
        assert!(missing(NAME, fetching).contains("no hooks"));
        let mut short = hooked(10, 1.0);
        short.actions[0].calls = 10;
        assert!(missing(NAME, short).contains("10 steps"));
    }

    #[test]
    fn averaging_gradients_is_training() {
        let hook = "[LightningModule]Net.on_after_backward";
        let averaged = |averaging: f64| {
            let mut report = hooked(100, 0.01);
            report.header.wall_seconds += 1.0;
            report.actions.push(row(hook, 100, 1.0));
            report.actions.push(row("all_reduce_gradients", 100, averaging));
            report
        };
        healthy(NAME, averaged(0.99));
        close(found(NAME, averaged(0.2)).cost.seconds, 0.8, 0.001);
    }

    #[test]
    fn burns_are_told_in_its_words() {
        let mut report = hooked(100, 0.01);
        report.header.wall_seconds += 1.0;
        report.actions.push(row("[Callback]EventProcessor.on_train_batch_end", 100, 1.0));
        assert!(found(NAME, report.clone()).remedy.contains("renderer"));
        // Every sender of the next event waits for a delayed thread, not only the training hooks.
        report.header.wall_seconds += 0.5;
        report.actions.push(row("[Callback]EventProcessor.on_validation_batch_end", 10, 0.3));
        report.actions.push(row("flush_events", 2, 0.2));
        close(found(NAME, report).cost.seconds, 1.5, 0.001);
    }
}
