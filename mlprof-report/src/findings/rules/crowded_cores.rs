//! Rule `crowded-cores`: more threads compete for CPU time than there are cores.

use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "crowded-cores",
    condition: "in training batches the process keeps all cores busy and the system preempts the \
                training thread, or tch or candle divides each op among more threads than there \
                are cores",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the run in which the training thread has no core during \
                  training batches",
        },
        Threshold {
            name: "busy",
            default: 0.8,
            why: "minimum share of all cores that the process keeps busy meanwhile: below it, \
                  another process has the cores or the thread waits for something else",
        },
        Threshold {
            name: "switches-per-second",
            default: 20.0,
            why: "minimum number of preemptions of the training thread in each second of training \
                  batches",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    of_batches(facts, limits).unwrap_or_else(Outcome::no_inputs)
}

/// Examines the CPU time of the process and of its training thread in training batches.
///
/// # Errors
///
/// Returns a message if the report lacks these numbers.
fn of_batches(facts: &Facts<'_>, limits: &[f64]) -> Result<Outcome, &'static str> {
    let (batch, cpu) = facts.training_batches()?;
    let cores = facts.cores()?;
    let seconds = batch.total_seconds.max(f64::MIN_POSITIVE);
    let busy = cpu.process_seconds / seconds / cores.max(1) as f64;
    let without_a_core = (seconds - cpu.thread_seconds).max(0.0);
    let switches = cpu.involuntary_switches as f64 / seconds;
    let mut evidence = vec![
        Evidence::new("training batches", duration(seconds)),
        Evidence::new("CPU time of the training thread", duration(cpu.thread_seconds)),
        Evidence::new("preemptions", grouped(cpu.involuntary_switches)),
        Evidence::new("busy cores", format!("{:.2}", busy * cores as f64)),
        Evidence::new("available cores", grouped(cores)),
    ];
    let frameworks = &facts.report.header().frameworks;
    let threads = frameworks.iter().filter_map(|known| Some((known, known.threads?)));
    evidence.extend(threads.map(|(known, threads)| {
        Evidence::new(format!("threads of {}", known.name), grouped(threads))
    }));
    let is_taken_off = switches >= limits[2]
        // With more voluntary switches, the thread waits for other threads and they do not wait for
        // it.
        && cpu.involuntary_switches > cpu.voluntary_switches;
    let divided = divided_among_too_many(facts, cores);
    let is_crowded = busy >= limits[1] && (is_taken_off || divided.is_some());
    let (cost, sentence) = match divided {
        Some(("candle", threads)) => {
            // rayon's threads work on each op, and the threads that wait for each other spin. The
            // time that the training thread has a core is therefore meaningless.
            let lost = seconds * (1.0 - cores as f64 / threads as f64);
            (facts.estimated_cost(lost), shared_by_too_many(threads, cores))
        }
        _ => {
            let busy = format!("{:.2} of {}", busy * cores as f64, grouped(cores));
            (facts.cost(without_a_core), no_core_for(facts, without_a_core, &busy))
        }
    };
    if !is_crowded || cost.share < limits[0] {
        return Ok(Outcome::Healthy(evidence));
    }
    Ok(Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence,
        evidence,
        place: Place::action(RUN_TRAINING_BATCH),
        cost,
        // The work of the other threads must also be done, so the saving is uncertain.
        confidence: Confidence::Hint,
        remedy: remedy(facts.framework).to_owned(),
    }]))
}

fn no_core_for(facts: &Facts<'_>, seconds: f64, busy: &str) -> String {
    format!(
        "The training thread had no core for {} of its batches ({}), while the process kept {busy} \
         busy.",
        duration(seconds),
        share(facts.share(seconds), 1.0),
    )
}

fn shared_by_too_many(threads: u64, cores: u64) -> String {
    format!(
        "{} threads work on each op in training batches on {} cores: all of them wait for the \
         threads without a core.",
        grouped(threads),
        grouped(cores),
    )
}

/// Returns the framework that divides its ops among more threads than cores, and its number of
/// threads. libtorch and candle give each thread a part of an op. The caller waits for the threads
/// that have no core.
fn divided_among_too_many<'report>(
    facts: &Facts<'report>,
    cores: u64,
) -> Option<(&'report str, u64)> {
    let known = facts.report.header().frameworks.iter();
    let mut divided = known.filter_map(|known| Some((known.name.as_str(), known.threads?)));
    divided.find(|(name, threads)| ["candle", "tch"].contains(name) && *threads > cores)
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Burn => {
            "use fewer threads than cores: lower `num_workers` of the data loaders and \
             `RAYON_NUM_THREADS`."
        }
        Framework::Tch => {
            "use fewer threads than cores: lower the number of data loader threads and \
             `tch::set_num_threads` (`OMP_NUM_THREADS`)."
        }
        _ => {
            "use fewer threads than cores: lower the number of data loader threads and \
             `RAYON_NUM_THREADS`; processes on one machine share its cores."
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::Framework;

    use crate::Machine;
    use crate::findings::samples::{close, found, healthy, missing, steps};
    use crate::simple::{CpuStatistics, SimpleReport};

    const NAME: &str = "crowded-cores";

    /// Builds a report with two seconds of batches on two cores. The arguments are the CPU times of
    /// the process and the thread, and the involuntary switches.
    fn worked(process_seconds: f64, thread_seconds: f64, involuntary: u64) -> SimpleReport {
        let mut report = steps(100, 0.02);
        report.header.machine = Some(Machine { cores: Some(2), ..Machine::default() });
        report.header.frameworks.push(Framework {
            name: "candle".to_owned(),
            threads: Some(2),
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
        assert_eq!(threads.map(|seen| seen.value.as_str()), Some("2"), "{finding:?}");
    }

    #[test]
    fn more_parts_of_each_op_than_cores_are_found_though_the_thread_waits_for_them() {
        let mut parts = worked(3.9, 0.4, 50);
        parts.actions[0].cpu.as_mut().expect("it").voluntary_switches = 4000;
        healthy(NAME, parts.clone());
        let framework = &mut parts.header.frameworks[0];
        (framework.name, framework.threads) = ("tch".to_owned(), Some(16));
        let of_tch = found(NAME, parts.clone()).cost;
        close(of_tch.seconds, 1.6, 0.001);
        assert!(!of_tch.is_estimated);
        // candle's calling thread computes with the others, and it also spins while it waits.
        parts.header.frameworks[0].name = "candle".to_owned();
        let of_candle = found(NAME, parts.clone());
        close(of_candle.cost.seconds, 1.75, 0.001);
        assert!(of_candle.cost.is_estimated && of_candle.remedy.contains("RAYON_NUM_THREADS"));
        assert!(of_candle.sentence.starts_with("16 threads work on each op"), "{of_candle:?}");
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
        assert!(missing(NAME, unknown).contains("number of cores"));
        assert!(missing(NAME, steps(100, 0.02)).contains("measure_cpu"));
    }
}
