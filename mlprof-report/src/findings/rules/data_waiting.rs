//! Rule `data-waiting`: training waits for its data.

use mlprof_events::names::{OWN_TRAIN_DATALOADER_NEXT, RUN_TRAINING_EPOCH, TRAIN_DATALOADER_NEXT};

use crate::Report;
use crate::counted::were;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{ActionFacts, Facts};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::simple::ActionStatistics;
use mlprof_events::OrderExt;

pub(super) static RULE: Rule = Rule {
    name: "data-waiting",
    condition: "training waits for batches for a large part of its time, excluding the first batch",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of training for waiting: below it, the batch itself is the better \
                  target (other tools warn at 5 %, which small models reach by making tensors)",
        },
        Threshold {
            name: "least-batches",
            default: 20.0,
            why: "minimum number of batches, so that the first ones do not dominate",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(next) = next(facts) else {
        return Outcome::no_inputs(
            "the report has no action train_dataloader_next: give the profiler to a trainer, or \
             wrap the loader of a handwritten loop in profile_iterable",
        );
    };
    if (next.calls as f64) < limits[1] {
        return Outcome::NoInputs(format!("there {} only", were(next.calls, "batch", "batches")));
    }
    let epochs = facts.action(RUN_TRAINING_EPOCH).map(|epochs| epochs.total_seconds);
    // The Simple profiler measures the wait of the training thread alone.
    let (waited, training) = match facts.data_waiting() {
        Some(data) => (data.waiting_seconds, data.epoch_seconds),
        None => (next.total_seconds, epochs),
    };
    let training = training.unwrap_or(facts.seconds);
    // The first batch cannot be prepared in advance, so its wait is excluded.
    let waited = (waited - next.first_seconds.unwrap_or(0.0)).max(0.0);
    let part = if training > 0.0 { waited / training } else { 0.0 };
    let mut evidence = vec![
        Evidence::new("wait for batches", duration(waited)),
        Evidence::new("training", duration(training)),
        Evidence::new("share", share(part, 1.0)),
        Evidence::new("batches", grouped(next.calls)),
    ];
    if part < limits[0] {
        return Outcome::Healthy(evidence);
    }
    if let Some(cpu) = next.cpu {
        let worked = duration(cpu.thread_seconds);
        evidence.push(Evidence::new("CPU time of the thread meanwhile", worked));
    }
    let parts = parts(facts.report, next.name, waited);
    let works = next.cpu.is_some_and(|cpu| cpu.thread_seconds >= MAKES_BATCHES * waited);
    let makes_batches = works || !parts.is_empty();
    evidence.extend(parts);
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Training waited {} of {} for its data ({}).",
            duration(waited),
            duration(training),
            share(part, 1.0)
        ),
        evidence,
        place: Place::action(next.name),
        cost: facts.cost(waited),
        confidence: Confidence::Likely,
        remedy: remedy(facts.framework, makes_batches).to_owned(),
    }])
}

/// Returns the action that waits for training batches. This is the trainer's own action, or that of
/// a handwritten loop.
fn next<'report>(facts: &Facts<'report>) -> Option<ActionFacts<'report>> {
    let by_hand = || {
        facts
            .actions
            .iter()
            .find(|action| action.name.ends_with(OWN_TRAIN_DATALOADER_NEXT))
            .copied()
    };
    facts.action(TRAIN_DATALOADER_NEXT).or_else(by_hand)
}

/// Maximum number of parts listed as evidence.
const MOST_PARTS: usize = 3;
/// Minimum share of the waiting time for a part to be listed.
const LEAST_PART: f64 = 0.05;

/// Returns the longest actions that run inside the waiting action, such as reading and batching.
/// Only the Simple report has them.
fn parts(report: &Report, next: &str, waited: f64) -> Vec<Evidence> {
    let Report::Simple(report) = report else { return Vec::new() };
    let is_part = |row: &&ActionStatistics| {
        row.inside.as_deref() == Some(next)
            && row.sub_stage.is_none()
            && row.total_seconds >= LEAST_PART * waited
    };
    let mut parts: Vec<_> = report.actions.iter().filter(is_part).collect();
    parts.order_by(|one, other| other.total_seconds.total_cmp(&one.total_seconds));
    let parts = parts.into_iter().take(MOST_PARTS);
    parts
        .map(|row| Evidence::new(format!("time in {}", row.action), duration(row.total_seconds)))
        .collect()
}

/// If the CPU time of the thread reaches this share of its waiting time, the thread makes the
/// batches itself.
const MAKES_BATCHES: f64 = 0.5;

/// Returns the recommended action. `makes_batches` is `true` if the training thread is known to
/// make the batches itself. Otherwise it is unknown if other threads already prepare batches in
/// advance.
fn remedy(framework: Framework, makes_batches: bool) -> &'static str {
    match (framework, makes_batches) {
        (Framework::Burn, true) => {
            "the training thread makes the batches itself: let workers make them ahead \
             (`DataLoaderBuilder::num_workers`), or move the work of the dataset and the batcher \
             to a step before training."
        }
        (Framework::Burn, false) => {
            "let workers make batches ahead, or use more workers \
             (`DataLoaderBuilder::num_workers`), or move the work of the dataset and the batcher \
             to a step before training."
        }
        (_, true) => {
            "the training thread makes the batches itself: make them ahead on a separate thread \
             that sends them through `std::sync::mpsc::sync_channel`, or move the work for each \
             batch to a step before training."
        }
        (_, false) => {
            "make batches ahead on a separate thread that sends them through \
             `std::sync::mpsc::sync_channel`, or on more threads if one already makes them, or \
             move the work for each batch to a step before training."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, missing, row, steps};
    use crate::simple::{ActionStatistics, CpuStatistics, DataWaiting, SimpleReport};
    use crate::{AdvancedReport, Report};

    const NAME: &str = "data-waiting";
    const NEXT: &str = "[_TrainingEpochLoop].train_dataloader_next";

    /// Builds a report with 100 batches of 20 ms. The loop waits `seconds` for each batch.
    fn waited(seconds: f64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.wall_seconds = 2.0 + 100.0 * seconds;
        report.actions.push(row(NEXT, 101, 100.0 * seconds));
        report.actions.push(row("run_training_epoch", 1, 2.0 + 100.0 * seconds));
        let share = seconds / (0.02 + seconds);
        report.data_waiting = Some(DataWaiting {
            waiting_seconds: 100.0 * seconds,
            epoch_seconds: Some(2.0 + 100.0 * seconds),
            share,
        });
        report
    }

    #[test]
    fn a_slow_loader_is_found_with_what_it_costs() {
        let finding = found(NAME, waited(0.02));
        close(finding.cost.seconds, 2.0, 0.05);
        close(finding.cost.share, 0.5, 0.05);
        close(finding.cost.seconds_per_step.expect("steps"), 0.02, 0.05);
        assert_eq!(finding.place.action.as_deref(), Some(NEXT));
        assert!(finding.remedy.contains("sync_channel"), "{finding:?}");
        let mut burn = waited(0.02);
        burn.actions.push(row("[TrainStep]Net.training_step", 100, 1.0));
        let remedy = found(NAME, burn.clone()).remedy;
        assert!(remedy.contains("or use more workers"), "{remedy}");
        assert!(remedy.contains("num_workers") && !remedy.contains("itself"), "{remedy}");
        // An action inside the wait runs on the waiting thread, so this thread makes the batches.
        let made = row("batch", 100, 1.5);
        burn.actions.push(ActionStatistics { inside: Some(NEXT.to_owned()), ..made });
        let remedy = found(NAME, burn).remedy;
        assert!(remedy.starts_with("the training thread makes the batches itself"), "{remedy}");
        assert!(remedy.contains("num_workers") && !remedy.contains("more workers"), "{remedy}");
    }

    #[test]
    fn a_thread_that_computes_while_it_waits_makes_the_batches_itself() {
        let with_cpu = |thread_seconds| {
            let mut report = waited(0.02);
            let cpu = CpuStatistics { thread_seconds, ..CpuStatistics::default() };
            for row in report.actions.iter_mut().filter(|row| row.action == NEXT) {
                row.cpu = Some(cpu);
            }
            found(NAME, report).remedy
        };
        assert!(with_cpu(1.9).contains("itself"));
        assert!(with_cpu(0.1).contains("or on more threads if one already makes them"));
    }

    #[test]
    fn which_part_of_it_takes_long_is_said() {
        let mut report = waited(0.02);
        let part = |name: &str, seconds, inside: &str| ActionStatistics {
            inside: Some(inside.to_owned()),
            ..row(name, 100, seconds)
        };
        report.actions.extend([
            part("batch", 0.3, NEXT),
            part("read", 1.5, NEXT),
            part("decode", 1.2, "read"),
            part("count", 0.01, NEXT),
        ]);
        let seen = found(NAME, report).evidence;
        let parts: Vec<_> = seen.iter().filter_map(|it| it.what.strip_prefix("time in ")).collect();
        assert_eq!(parts, ["read", "batch"], "{seen:?}");
    }

    #[test]
    fn a_loader_that_keeps_up_is_not() {
        healthy(NAME, waited(0.001));
    }

    #[test]
    fn a_first_batch_that_takes_long_is_not() {
        let mut report = waited(0.001);
        report.header.wall_seconds += 3.0;
        let next = report.actions.iter_mut().find(|row| row.action == NEXT).expect("it");
        next.first_seconds = 3.0;
        next.total_seconds += 3.0;
        let data = report.data_waiting.as_mut().expect("it");
        data.waiting_seconds += 3.0;
        healthy(NAME, report);
    }

    #[test]
    fn the_advanced_report_has_it_too() {
        let simple = waited(0.02);
        let profile = |row: &crate::simple::ActionStatistics| crate::advanced::ActionProfile {
            action: row.action.clone(),
            sub_stage: None,
            calls: row.calls,
            total_seconds: row.total_seconds,
            functions: Vec::new(),
            device: None,
        };
        let report = Report::Advanced(AdvancedReport {
            header: simple.header.clone(),
            actions: simple.actions.iter().map(profile).collect(),
            threads: Vec::new(),
            open: Vec::new(),
            samples: None,
            device_regions: Vec::new(),
            step_series: Vec::new(),
            findings: Vec::new(),
        });
        let findings = crate::findings::Rules::new().apply(&report);
        assert_eq!(findings[0].rule, NAME, "{findings:?}");
        close(findings[0].cost.share, 0.5, 0.05);
    }

    #[test]
    fn a_loop_that_nobody_measured_has_no_inputs() {
        assert!(missing(NAME, steps(100, 0.02)).contains("profile_iterable"));
        let mut few = waited(0.2);
        few.actions.iter_mut().find(|row| row.action == NEXT).expect("it").calls = 5;
        assert!(missing(NAME, few).contains("5 batches"));
    }
}
