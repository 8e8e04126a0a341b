//! More threads want to work than there are cores.

use profiler_events::names::RUN_TRAINING_BATCH;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) struct CrowdedCores;

const THRESHOLDS: &[Threshold] = &[
    Threshold {
        name: "share",
        default: 0.1,
        why: "the part of the run in which the training thread must be without a core, in training batches",
    },
    Threshold {
        name: "busy",
        default: 0.8,
        why: "the part of all cores that the process must keep busy meanwhile: else another one has them, \
              or the thread waits for something else",
    },
    Threshold {
        name: "switches-per-second",
        default: 20.0,
        why: "so often the system must take the core away from the thread in each second of it",
    },
];

impl Rule for CrowdedCores {
    fn name(&self) -> &'static str {
        "crowded-cores"
    }

    fn condition(&self) -> &'static str {
        "in training batches the process keeps all cores busy, and the system takes the core away from \
         the thread that trains, or more threads divide each of tch's ops than there are cores"
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
        let seconds = batch.total_seconds.max(f64::MIN_POSITIVE);
        let busy = cpu.process_seconds / seconds / cores.max(1) as f64;
        let without_a_core = (seconds - cpu.thread_seconds).max(0.0);
        let switches = cpu.involuntary_switches as f64 / seconds;
        let mut evidence = vec![
            Evidence::new("training batches", duration(seconds)),
            Evidence::new("of it the thread was on a core", duration(cpu.thread_seconds)),
            Evidence::new("times it was taken off", grouped(cpu.involuntary_switches)),
            Evidence::new("cores busy", format!("{:.2}", busy * cores as f64)),
            Evidence::new("cores that it may use", grouped(cores)),
        ];
        let threads = header.frameworks.iter().filter_map(|known| Some((known, known.threads?)));
        evidence.extend(threads.map(|(known, threads)| {
            Evidence::new(format!("threads of {}", known.name), grouped(threads))
        }));
        let is_taken_off = switches >= limits[2]
            // Else it waits for somebody, and is not waited for.
            && cpu.involuntary_switches > cpu.voluntary_switches;
        let is_crowded =
            busy >= limits[1] && (is_taken_off || has_parts_without_a_core(facts, cores));
        if !is_crowded || facts.share(without_a_core) < limits[0] {
            return Outcome::Healthy(evidence);
        }
        Outcome::Found(vec![Finding {
            rule: self.name().to_owned(),
            sentence: format!(
                "The thread that trains had no core for {} of its batches ({}), while the process kept \
                 {:.2} of {} busy.",
                duration(without_a_core),
                share(facts.share(without_a_core), 1.0),
                busy * cores as f64,
                grouped(cores),
            ),
            evidence,
            place: Place::action(RUN_TRAINING_BATCH),
            cost: facts.cost(without_a_core),
            // What the others do meanwhile has to be done as well.
            confidence: Confidence::Hint,
            remedy: remedy(facts.framework).to_owned(),
        }])
    }
}

/// libtorch gives each of its threads a part of an op, the one that trains among them, which then waits for those
/// that have no core.
fn has_parts_without_a_core(facts: &Facts<'_>, cores: u64) -> bool {
    let known = facts.report.header().frameworks.iter();
    facts.framework == Framework::Tch
        && known.filter_map(|known| known.threads).any(|threads| threads > cores)
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Burn => {
            "have fewer threads than cores: fewer `num_workers` of the data loaders, and fewer of \
             `RAYON_NUM_THREADS`."
        }
        Framework::Tch => {
            "have fewer threads than cores: fewer that load data, and fewer of `tch::set_num_threads` \
             (`OMP_NUM_THREADS`)."
        }
        _ => {
            "have fewer threads than cores: fewer that load data, and fewer of `RAYON_NUM_THREADS`; \
             processes that share a machine share its cores."
        }
    }
}

#[cfg(test)]
mod tests {
    use profiler_events::Framework;

    use crate::Machine;
    use crate::findings::samples::{close, found, healthy, missing, steps};
    use crate::simple::{CpuStatistics, SimpleReport};

    const NAME: &str = "crowded-cores";

    /// Two seconds of batches on two cores, the process busy for so many seconds, the thread for so
    /// many.
    fn worked(process_seconds: f64, thread_seconds: f64, involuntary: u64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.machine = Some(Machine { cores: Some(2), ..Machine::default() });
        report.header.frameworks.push(Framework {
            name: "candle".to_owned(),
            threads: Some(16),
            ..Framework::default()
        });
        report.actions[0].cpu = Some(CpuStatistics {
            thread_seconds,
            process_seconds,
            voluntary_switches: 50,
            involuntary_switches: involuntary,
        });
        report
    }

    #[test]
    fn a_thread_that_is_crowded_out_is_found() {
        let finding = found(NAME, worked(3.9, 1.2, 400));
        close(finding.cost.seconds, 0.8, 0.001);
        let threads = finding.evidence.iter().find(|seen| seen.what == "threads of candle");
        assert_eq!(threads.map(|seen| seen.value.as_str()), Some("16"), "{finding:?}");
    }

    #[test]
    fn more_parts_of_each_op_than_cores_are_found_though_the_thread_waits_for_them() {
        let mut parts = worked(3.9, 0.4, 50);
        parts.actions[0].cpu.as_mut().expect("it").voluntary_switches = 4000;
        healthy(NAME, parts.clone());
        let framework = &mut parts.header.frameworks[0];
        framework.name = "tch".to_owned();
        close(found(NAME, parts.clone()).cost.seconds, 1.6, 0.001);
        parts.header.frameworks[0].threads = Some(2);
        healthy(NAME, parts);
    }

    #[test]
    fn one_that_waits_or_has_its_core_is_not() {
        healthy(NAME, worked(3.9, 1.95, 400));
        healthy(NAME, worked(3.9, 1.2, 10));
        let mut others = worked(2.4, 1.8, 400);
        others.header.wall_seconds = 2.0;
        healthy(NAME, others);
        let mut waits = worked(3.9, 1.2, 400);
        waits.actions[0].cpu.as_mut().expect("it").voluntary_switches = 4000;
        healthy(NAME, waits);
        let mut unknown = worked(3.9, 1.2, 400);
        unknown.header.machine = None;
        assert!(missing(NAME, unknown).contains("how many cores"));
        assert!(missing(NAME, steps(100, 0.02)).contains("measure_cpu"));
    }
}
