//! A device has nothing to do for much of a step.

use profiler_events::DeviceCounter;
use profiler_events::names::RUN_TRAINING_BATCH;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::grouped;

pub(super) struct DeviceIdle;

const THRESHOLDS: &[Threshold] = &[
    Threshold {
        name: "busy-percent",
        default: 50.0,
        why: "below that a device is idle half of the time, as the driver counts it",
    },
    Threshold {
        name: "least-samples",
        default: 20.0,
        why: "so many samples there must be: each is of the time before it, up to a second",
    },
];

impl Rule for DeviceIdle {
    fn name(&self) -> &'static str {
        "device-idle"
    }

    fn condition(&self) -> &'static str {
        "in training batches a device's counters show that it is idle much of the time"
    }

    fn thresholds(&self) -> &'static [Threshold] {
        THRESHOLDS
    }

    fn examine(&self, facts: &Facts<'_>, limits: &[f64]) -> Outcome {
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
        if sampled.is_empty() {
            return Outcome::no_inputs(
                "the report has too few samples of a device's counters in training batches \
                 (`DeviceCounters`, beside the Tensor profiler)",
            );
        }
        // One that is busy is enough: what the others are there for no report knows.
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
            rule: self.name().to_owned(),
            sentence: format!(
                "In training batches device {device} was busy {:.1} % of the time.",
                busy.mean
            ),
            evidence: evidence.into(),
            place: Place::action(RUN_TRAINING_BATCH),
            cost: facts.cost(seconds * (1.0 - busy.mean / 100.0)),
            confidence: Confidence::Likely,
            remedy:
                "give the device more at once: larger batches, and no reads of values inside a \
                     step; the trace shows what it waits for."
                    .to_owned(),
        }])
    }
}

#[cfg(test)]
mod tests {
    use profiler_events::{ActionKind, DeviceCounter};

    use crate::findings::samples::{close, found, healthy, missing, recorded};
    use crate::tensor::{
        ActionDeviceCounters, CounterStatistics, DeviceCounterStatistics, TensorReport,
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
        assert!(missing(NAME, busy(20.0, 3)).contains("too few samples"));
    }
}
