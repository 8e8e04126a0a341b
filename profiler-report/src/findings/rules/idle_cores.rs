//! One thread works, and the machine's other cores do not.

use profiler_events::names::RUN_TRAINING_BATCH;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) struct IdleCores;

const THRESHOLDS: &[Threshold] = &[
    Threshold {
        name: "share",
        default: 0.5,
        why: "the part of the run in which training batches must be under way",
    },
    Threshold {
        name: "busy-cores",
        default: 1.3,
        why: "so many cores are busy meanwhile at the most",
    },
    Threshold {
        name: "least-cores",
        default: 4.0,
        why: "so many the program must be allowed to use: two are soon busy with data and the display",
    },
    Threshold {
        name: "least-busy",
        default: 0.5,
        why: "so much of a core must be busy meanwhile: else it waits, or other programs have the cores",
    },
    Threshold {
        name: "divisible",
        default: 0.5,
        why: "the part of what one core does that several would share: the rest each op does by itself \
              (Amdahl's law)",
    },
];

impl Rule for IdleCores {
    fn name(&self) -> &'static str {
        "idle-cores"
    }

    fn condition(&self) -> &'static str {
        "in training batches about one core is busy, and the program may use many"
    }

    fn thresholds(&self) -> &'static [Threshold] {
        THRESHOLDS
    }

    fn examine(&self, facts: &Facts<'_>, limits: &[f64]) -> Outcome {
        let batch = facts.action(RUN_TRAINING_BATCH);
        let Some((batch, cpu)) = batch.and_then(|batch| Some((batch, batch.cpu?))) else {
            return Outcome::no_inputs(
                "the report has no CPU time of run_training_batch (`SimpleProfiler::measure_cpu`)",
            );
        };
        let header = facts.report.header();
        let Some(cores) = header.machine.as_ref().and_then(|machine| machine.cores) else {
            return Outcome::no_inputs(
                "the report does not say how many cores the program may use",
            );
        };
        if matches!(facts.report, Report::Simple(report) if !report.device_regions.is_empty()) {
            return Outcome::no_inputs("a device works meanwhile, which is not CPU time");
        }
        let seconds = batch.total_seconds;
        let busy = if seconds > 0.0 { cpu.process_seconds / seconds } else { 0.0 };
        let evidence = vec![
            Evidence::new("cores busy in training batches", format!("{busy:.2}")),
            Evidence::new("cores that it may use", grouped(cores)),
            Evidence::new("training batches", duration(seconds)),
        ];
        let is_one = (limits[3]..=limits[1]).contains(&busy) && cores as f64 >= limits[2];
        if !is_one || facts.share(seconds) < limits[0] {
            return Outcome::Healthy(evidence);
        }
        Outcome::Found(vec![Finding {
            rule: self.name().to_owned(),
            sentence: format!(
                "In training batches {busy:.2} of {} cores were busy ({} of the run).",
                grouped(cores),
                share(facts.share(seconds), 1.0)
            ),
            evidence,
            place: Place::action(RUN_TRAINING_BATCH),
            // Nothing in the report says which part of it can be divided.
            cost: facts.estimated_cost(limits[4] * seconds * (1.0 - busy.max(1.0) / cores as f64)),
            // Small models are quickest on one.
            confidence: Confidence::Hint,
            remedy: remedy(facts.framework).to_owned(),
        }])
    }
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Tch => {
            "if ops are large, let more threads work on each (`tch::set_num_threads`, \
             `OMP_NUM_THREADS`), or enlarge the batch; small ones are quickest on one thread."
        }
        Framework::Burn => {
            "if ops are large, take a device that uses all cores (`burn-flex` with its feature \
             `rayon`, or a GPU), or enlarge the batch; small ones are quickest on one thread."
        }
        _ => {
            "if ops are large, let more threads work on each (`RAYON_NUM_THREADS`), or enlarge the \
             batch; small ones are quickest on one thread."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::Machine;
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, steps};
    use crate::simple::{CpuStatistics, SimpleReport};

    const NAME: &str = "idle-cores";

    /// Batches of 20 ms on so many cores, of which so many were busy.
    fn busy(busy: f64, cores: Option<u64>) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.machine = Some(Machine { cores, ..Machine::default() });
        report.actions[0].cpu = Some(CpuStatistics {
            thread_seconds: 2.0 * busy.min(1.0),
            process_seconds: 2.0 * busy,
            voluntary_switches: 0,
            involuntary_switches: 0,
        });
        report
    }

    #[test]
    fn one_busy_core_of_many_is_found() {
        let finding = found(NAME, busy(1.0, Some(8)));
        close(finding.cost.seconds, 0.875, 0.001);
        assert!(finding.cost.is_estimated);
        assert_eq!(finding.confidence, Confidence::Hint);
        assert!(finding.sentence.contains("1.00 of 8 cores"), "{finding:?}");
    }

    #[test]
    fn several_busy_cores_are_not_nor_one_of_two() {
        healthy(NAME, busy(3.0, Some(8)));
        healthy(NAME, busy(1.0, Some(2)));
        let mut rarely = busy(1.0, Some(8));
        rarely.header.wall_seconds = 10.0;
        healthy(NAME, rarely);
        assert!(missing(NAME, busy(1.0, None)).contains("how many cores"));
        assert!(missing(NAME, steps(100, 0.02)).contains("measure_cpu"));
    }
}
