//! Rule `idle-cores`: one thread works while the other cores of the machine are idle.

use mlprof_events::ActionKind;
use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::KeyAverage;
use crate::{Report, TensorReport};

pub(super) static RULE: Rule = Rule {
    name: "idle-cores",
    condition: "training batches keep about one core busy although the program may use many, or \
                tch runs long ops on one thread",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.5,
            why: "minimum share of the run for training batches, and of the recorded steps for \
                  long ops",
        },
        Threshold {
            name: "busy-cores",
            default: 1.3,
            why: "maximum number of busy cores in training batches",
        },
        Threshold {
            name: "least-cores",
            default: 4.0,
            why: "minimum number of cores that the program may use: data loading and the display \
                  can keep two busy",
        },
        Threshold {
            name: "least-busy",
            default: 0.5,
            why: "minimum number of busy cores in training batches: below it, the thread waits, or \
                  other programs have the cores",
        },
        Threshold {
            name: "divisible",
            default: 0.5,
            why: "share of single-core time that can run in parallel; the rest is serial (Amdahl's \
                  law)",
        },
        Threshold {
            name: "seconds-per-op",
            default: 2e-3,
            why: "minimum mean duration of an op in seconds: longer single-threaded ops divide \
                  well among threads, because the overhead is small",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let judged = match facts.report {
        Report::Tensor(report) => of_ops(report, facts, limits),
        _ => of_batches(facts, limits),
    };
    judged.unwrap_or_else(Outcome::no_inputs)
}

/// Examines the CPU time of the process in training batches.
///
/// # Errors
///
/// Returns a message if the report lacks these numbers.
fn of_batches(facts: &Facts<'_>, limits: &[f64]) -> Result<Outcome, &'static str> {
    let (batch, cpu) = facts.training_batches()?;
    let cores = facts.cores()?;
    if matches!(facts.report, Report::Simple(report) if !report.device_regions.is_empty()) {
        return Err(DEVICE_WORKS);
    }
    let seconds = batch.total_seconds;
    let busy = if seconds > 0.0 { cpu.process_seconds / seconds } else { 0.0 };
    let evidence = vec![
        Evidence::new("busy cores in training batches", format!("{busy:.2}")),
        Evidence::new("available cores", grouped(cores)),
        Evidence::new("training batches", duration(seconds)),
    ];
    let is_one = (limits[3]..=limits[1]).contains(&busy) && cores as f64 >= limits[2];
    if !is_one || facts.share(seconds) < limits[0] {
        return Ok(Outcome::Healthy(evidence));
    }
    Ok(Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "In training batches {busy:.2} of {} cores were busy ({} of the run).",
            grouped(cores),
            share(facts.share(seconds), 1.0)
        ),
        evidence,
        place: Place::action(RUN_TRAINING_BATCH),
        // The report does not show which part can be parallelized, so the cost is an estimate.
        cost: facts.estimated_cost(limits[4] * seconds * (1.0 - busy.max(1.0) / cores as f64)),
        // Small models are fastest on one core.
        confidence: Confidence::Hint,
        remedy: remedy(facts.framework).to_owned(),
    }]))
}

/// Examines the duration of ops that run on one thread.
///
/// # Errors
///
/// Returns a message if the report lacks these numbers.
fn of_ops(
    report: &TensorReport,
    facts: &Facts<'_>,
    limits: &[f64],
) -> Result<Outcome, &'static str> {
    let header = &report.header;
    let tch = header.frameworks.iter().find(|known| known.name == "tch");
    let threads = tch.and_then(|tch| tch.threads);
    let threads = threads.ok_or(
        "the report does not contain the number of threads for each op of \
                                 tch",
    )?;
    let cores = facts.cores()?;
    if header.world_size > 1 {
        return Err("several processes share the cores");
    }
    if facts.ops().iter().any(|row| row.is_on_device || row.device_seconds > 0.0) {
        return Err(DEVICE_WORKS);
    }
    let is_long = |row: &&KeyAverage| {
        row.kind == ActionKind::Op && row.self_cpu_seconds > limits[5] * row.calls as f64
    };
    let long = || facts.ops().iter().filter(is_long);
    let seconds: f64 = long().map(|row| row.self_cpu_seconds).sum();
    let evidence = [
        Evidence::new("threads for each op", grouped(threads)),
        Evidence::new("available cores", grouped(cores)),
        Evidence::new("divisible ops", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
    ];
    let longest =
        long().max_by(|one, other| one.self_cpu_seconds.total_cmp(&other.self_cpu_seconds));
    let is_one = threads == 1 && cores > 1 && facts.share(seconds) >= limits[0];
    let Some(longest) = longest.filter(|_| is_one) else { return Ok(Outcome::healthy(evidence)) };
    Ok(Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "One thread of {} cores ran ops of more than {} each, {} in total ({}).",
            grouped(cores),
            duration(limits[5]),
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: place_of_op(longest),
        cost: facts.estimated_cost(seconds * (1.0 - 1.0 / cores as f64)),
        // Other programs may occupy the other cores.
        confidence: Confidence::Hint,
        remedy: remedy(Framework::Tch).to_owned(),
    }]))
}

const DEVICE_WORKS: &str = "a device works meanwhile, which is not CPU time";

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Tch => {
            "if ops are large, use more threads for each op (`tch::set_num_threads`, \
             `OMP_NUM_THREADS`), or enlarge the batch; small ops are fastest on one thread."
        }
        Framework::Burn => {
            "if ops are large, use a device that uses all cores (`burn-flex` with its feature \
             `rayon`, or a GPU), or enlarge the batch; small ops are fastest on one thread."
        }
        _ => {
            "if ops are large, use more threads for each op (`RAYON_NUM_THREADS`), or enlarge the \
             batch; small ops are fastest on one thread."
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::Framework;

    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};
    use crate::simple::{CpuStatistics, SimpleReport};
    use crate::{Machine, TensorReport};

    const NAME: &str = "idle-cores";

    /// Builds a report with batches of 20 ms on `cores` cores, of which `busy` were busy.
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
        assert!(missing(NAME, busy(1.0, None)).contains("number of cores"));
        assert!(missing(NAME, steps(100, 0.02)).contains("measure_cpu"));
    }

    /// Builds a report with 100 matrix multiplications that take `seconds` in total on `threads`
    /// threads.
    fn multiplied(seconds: f64, threads: u64, cores: u64) -> TensorReport {
        let mut report = recorded(vec![op("aten::mm", 100, seconds), op("aten::add", 5000, 0.2)]);
        report.header.machine = Some(Machine { cores: Some(cores), ..Machine::default() });
        report.header.frameworks.push(Framework {
            name: "tch".to_owned(),
            threads: Some(threads),
            ..Framework::default()
        });
        report
    }

    #[test]
    fn long_ops_on_one_thread_are_found() {
        let finding = found(NAME, multiplied(1.6, 1, 2));
        close(finding.cost.seconds, 0.8, 0.001);
        assert!(finding.cost.is_estimated);
        assert_eq!(finding.confidence, Confidence::Hint);
        assert_eq!(finding.place.op.as_deref(), Some("aten::mm"));
        assert!(finding.sentence.contains("One thread of 2 cores"), "{finding:?}");
        close(found(NAME, multiplied(1.6, 1, 8)).cost.seconds, 1.4, 0.001);
    }

    #[test]
    fn on_several_they_are_not_nor_short_ones() {
        healthy(NAME, multiplied(1.6, 2, 2));
        healthy(NAME, multiplied(1.6, 1, 1));
        healthy(NAME, multiplied(0.9, 1, 8));
        // Each op takes about 0.16 ms.
        let mut short = multiplied(1.6, 1, 8);
        short.key_averages.rows[0].calls = 10_000;
        healthy(NAME, short);
    }

    #[test]
    fn ranks_devices_and_others_do_not_tell() {
        let mut ranks = multiplied(1.6, 1, 8);
        ranks.header.world_size = 8;
        assert!(missing(NAME, ranks).contains("several processes"));
        let mut device = multiplied(1.6, 1, 8);
        device.key_averages.rows[0].device_seconds = 1.0;
        assert!(missing(NAME, device).contains("device works"));
        let mut candle = multiplied(1.6, 1, 8);
        candle.header.frameworks[0].name = "candle".to_owned();
        assert!(missing(NAME, candle).contains("op of tch"));
        let mut nowhere = multiplied(1.6, 1, 8);
        nowhere.header.machine = None;
        assert!(missing(NAME, nowhere).contains("number of cores"));
    }
}
