//! Rule `idle-steps`: no thread of the process works during parts of the training batches.

use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{ActionFacts, Facts};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "idle-steps",
    condition: "training batches take longer than the CPU time of all threads of the process \
                meanwhile",
    thresholds: &[Threshold {
        name: "share",
        default: 0.15,
        why: "minimum share of the run in which training batches run but no thread works; the \
              system's accounting alone is off by a few percent",
    }],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let batch = facts.action(RUN_TRAINING_BATCH);
    let Some((batch, cpu)) = batch.and_then(|batch| Some((batch, batch.cpu?))) else {
        return Outcome::no_inputs(
            "the report has no CPU time of run_training_batch: turn on \
             `SimpleProfiler::measure_cpu`",
        );
    };
    if matches!(facts.report, Report::Simple(report) if !report.device_regions.is_empty()) {
        return Outcome::no_inputs("a device works meanwhile, which is not CPU time");
    }
    let idle = idle(&batch);
    let evidence = [
        Evidence::new("training batches", duration(batch.total_seconds)),
        Evidence::new("CPU time of all threads meanwhile", duration(cpu.process_seconds)),
        Evidence::new("voluntary context switches of the thread", grouped(cpu.voluntary_switches)),
    ];
    if facts.share(idle) < limits[0] {
        return Outcome::healthy(evidence);
    }
    let inside = facts
        .actions
        .iter()
        .filter(|action| action.name != RUN_TRAINING_BATCH && action.calls == batch.calls);
    let most = inside.filter(|action| self::idle(action) > 0.5 * idle);
    let innermost = most.min_by(|one, other| one.total_seconds.total_cmp(&other.total_seconds));
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "In training batches no thread worked for {} ({}).",
            duration(idle),
            share(facts.share(idle), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::action(innermost.map_or(RUN_TRAINING_BATCH, |action| action.name)),
        cost: facts.cost(idle),
        // A device without reported activity may be working.
        confidence: Confidence::Hint,
        remedy: "find the wait: reading a value from a device, files, locks, messages of other \
                 processes, or sleep; otherwise another program uses the cores."
            .to_owned(),
    }])
}

/// Returns the minimum time in seconds in which no thread worked.
fn idle(action: &ActionFacts<'_>) -> f64 {
    action.cpu.map_or(0.0, |cpu| {
        (action.total_seconds - cpu.process_seconds.max(cpu.thread_seconds)).max(0.0)
    })
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, missing, steps};
    use crate::simple::{CpuStatistics, SimpleReport};

    const NAME: &str = "idle-steps";

    /// Builds a report with batches of 20 ms and the given CPU times per batch, in seconds.
    fn worked(thread_seconds: f64, process_seconds: f64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.actions[0].cpu = Some(CpuStatistics {
            thread_seconds: 100.0 * thread_seconds,
            process_seconds: 100.0 * process_seconds,
            voluntary_switches: 100,
            involuntary_switches: 0,
        });
        report
    }

    #[test]
    fn steps_that_sleep_are_found() {
        close(found(NAME, worked(0.01, 0.01)).cost.seconds, 1.0, 0.001);
    }

    #[test]
    fn steps_that_work_are_not_on_whatever_thread() {
        healthy(NAME, worked(0.0199, 0.0199));
        healthy(NAME, worked(0.001, 0.06));
        assert!(missing(NAME, steps(100, 0.02)).contains("measure_cpu"));
    }
}
