//! Rule `device-idle`: a device is idle for a large part of a step.

use mlprof_events::DeviceCounter;
use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped};
use crate::tensor;

pub(super) static RULE: Rule = Rule {
    name: "device-idle",
    condition: "a device is idle much of the time: in training batches by its counters, otherwise \
                between its kernels",
    thresholds: &[
        Threshold {
            name: "busy-percent",
            default: 50.0,
            why: "maximum busy percentage: below 50 the device is idle half of the time according \
                  to the driver",
        },
        Threshold {
            name: "least-samples",
            default: 20.0,
            why: "minimum number of samples: each covers the time before it, up to a second",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let devices = match facts.report {
        Report::Tensor(report) => &report.device_counters[..],
        _ => &[],
    };
    let sampled = devices.iter().filter_map(|device| {
        let batches = device.actions.iter().find(|action| action.name == RUN_TRAINING_BATCH)?;
        let is_busy = |of: &&crate::tensor::CounterStatistics| {
            of.counter == DeviceCounter::GpuUtilization && of.samples as f64 >= limits[1]
        };
        let busy = batches.counters.iter().find(is_busy)?;
        Some((device.device, batches.total_seconds, busy))
    });
    let sampled: Vec<_> = sampled.collect();
    if sampled.is_empty()
        && let Report::Tensor(report) = facts.report
        && let Some(device) = busiest_by_gaps(&report.device_idle)
    {
        return by_gaps(RULE.name, facts, device, limits[0]);
    }
    if sampled.is_empty() {
        return Outcome::no_inputs(
            "the report has neither enough device counter samples in training batches (add \
             `DeviceCounters` next to the Tensor profiler) nor device activity",
        );
    }
    // One busy device is enough, because the purpose of the other devices is unknown.
    let busiest = sampled.into_iter().max_by(|one, other| one.2.mean.total_cmp(&other.2.mean));
    let Some((device, seconds, busy)) = busiest else { return Outcome::Healthy(Vec::new()) };
    let evidence = [
        Evidence::new(format!("device {device} busy"), format!("{:.1} %", busy.mean)),
        Evidence::new("samples", grouped(busy.samples)),
    ];
    if busy.mean >= limits[0] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "In training batches device {device} was busy {:.1} % of the time.",
            busy.mean
        ),
        evidence: evidence.into(),
        place: Place::action(RUN_TRAINING_BATCH),
        cost: facts.cost(seconds * (1.0 - busy.mean / 100.0)),
        confidence: Confidence::Likely,
        remedy: "give the device more work at once: use larger batches, and read no values inside \
                 a step; the trace shows what the device waits for."
            .to_owned(),
    }])
}

/// Returns the device with the highest busy share. The purpose of the other devices is unknown.
fn busiest_by_gaps(idle: &[tensor::DeviceIdle]) -> Option<&tensor::DeviceIdle> {
    let part = |device: &tensor::DeviceIdle| device.busy_seconds / device.window_seconds;
    let whole = idle.iter().filter(|device| device.stream.is_none() && device.window_seconds > 0.0);
    whole.max_by(|one, other| part(one).total_cmp(&part(other)))
}

/// Examines the gaps between a device's activities in the recorded steps, and the causes of these
/// gaps.
fn by_gaps(
    rule: &str,
    facts: &Facts<'_>,
    device: &tensor::DeviceIdle,
    busy_percent: f64,
) -> Outcome {
    let idle = device.idle_seconds();
    let busy = 100.0 * device.busy_seconds / device.window_seconds;
    let mut evidence = vec![
        Evidence::new(format!("device {} busy", device.device), format!("{busy:.1} %")),
        Evidence::new("idle time between kernels", duration(idle)),
    ];
    let causes = device.causes().into_iter().filter(|(_, gaps)| gaps.count > 0);
    evidence.extend(causes.map(|(cause, gaps)| {
        let value = format!("{} in {} gaps", duration(gaps.seconds), grouped(gaps.count));
        Evidence::new(format!("idle time, cause {cause}"), value)
    }));
    if busy >= busy_percent {
        return Outcome::Healthy(evidence);
    }
    let most = device.causes().into_iter();
    let most = most.max_by(|(_, one), (_, other)| one.seconds.total_cmp(&other.seconds));
    let remedy = match most.map_or("", |(cause, _)| cause) {
        "host late" => {
            "the host is late: make batches ahead, read no values inside a step, and give the \
             device more work at once."
        }
        "launch" => "launches take longer than their kernels: use larger batches or fused ops.",
        _ => {
            "give the device more work at once: use larger batches, and read no values inside a \
             step; the trace shows what the device waits for."
        }
    };
    Outcome::Found(vec![Finding {
        rule: rule.to_owned(),
        sentence: format!(
            "In the recorded steps device {} was busy {busy:.1} % of its time.",
            device.device
        ),
        evidence,
        place: Place::default(),
        cost: facts.cost(idle),
        confidence: Confidence::Likely,
        remedy: remedy.to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use mlprof_events::{ActionKind, DeviceCounter};

    use crate::findings::samples::{close, found, healthy, missing, recorded};
    use crate::tensor::{
        ActionDeviceCounters, CounterStatistics, DeviceCounterStatistics, DeviceIdle, IdleGaps,
        TensorReport,
    };

    const NAME: &str = "device-idle";

    fn busy(percent: f64, samples: u64) -> TensorReport {
        let busy = CounterStatistics {
            counter: DeviceCounter::GpuUtilization,
            samples,
            mean: percent,
            max: 100.0,
        };
        let mut report = recorded(Vec::new());
        report.device_counters.push(DeviceCounterStatistics {
            device: 0,
            samples,
            interval_seconds: Some(0.1),
            recorded_seconds: 2.0,
            memory_bytes: None,
            recording: vec![busy],
            actions: vec![ActionDeviceCounters {
                name: "run_training_batch".to_owned(),
                kind: ActionKind::Action,
                calls: 100,
                total_seconds: 1.8,
                counters: vec![busy],
            }],
        });
        report
    }

    #[test]
    fn an_idle_device_is_found_and_a_busy_one_is_not() {
        close(found(NAME, busy(20.0, 100)).cost.seconds, 0.8 * 1.8, 0.001);
        healthy(NAME, busy(90.0, 100));
        let mut two = busy(90.0, 100);
        two.device_counters.push(busy(0.0, 100).device_counters.remove(0));
        healthy(NAME, two);
        assert!(missing(NAME, busy(20.0, 3)).contains("enough device counter samples"));
    }

    /// Builds a report in which a device waits `seconds` for its host, out of two recorded seconds.
    fn waited(seconds: f64) -> TensorReport {
        let host_wait = IdleGaps { count: 100, seconds, longest_seconds: 0.1 };
        let mut report = recorded(Vec::new());
        report.device_idle.push(DeviceIdle {
            window_seconds: 2.0,
            busy_seconds: 2.0 - seconds,
            host_wait,
            ..DeviceIdle::default()
        });
        report
    }

    #[test]
    fn gaps_between_kernels_are_told_by_their_cause_where_nobody_counts() {
        let finding = found(NAME, waited(1.2));
        close(finding.cost.seconds, 1.2, 0.001);
        assert!(finding.remedy.starts_with("the host is late"), "{finding:?}");
        let cause = finding.evidence.iter().find(|seen| seen.what == "idle time, cause host late");
        assert!(cause.is_some_and(|seen| seen.value.ends_with("in 100 gaps")), "{finding:?}");
        healthy(NAME, waited(0.4));
        let mut of_a_stream = waited(1.2);
        of_a_stream.device_idle[0].stream = Some(7);
        assert!(missing(NAME, of_a_stream).contains("counter samples"));
    }
}
