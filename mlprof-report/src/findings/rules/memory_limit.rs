//! Rule `memory-limit`: a device has hardly any free memory.

use mlprof_events::DeviceCounter;

use crate::Report;
use crate::finding::{Confidence, Cost, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{bytes, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "memory-limit",
    condition: "counters show that nearly all memory of a device is used",
    thresholds: &[Threshold {
        name: "share",
        default: 0.95,
        why: "minimum share of a device's memory in use: a slightly larger allocation fails; \
              caching allocators can reach it without need",
    }],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let devices = match facts.report {
        Report::Tensor(report) => &report.device_counters[..],
        _ => &[],
    };
    let known = devices.iter().filter_map(|device| {
        let mut counters = device.recording.iter();
        let taken = counters.find(|of| of.counter == DeviceCounter::MemoryUsed)?;
        let all = device.memory_bytes.filter(|bytes| *bytes > 0)?;
        Some((device.device, taken, all))
    });
    let part = |taken: f64, all: u64| taken / all as f64;
    let fullest =
        known.max_by(|one, other| part(one.1.max, one.2).total_cmp(&part(other.1.max, other.2)));
    let Some((device, taken, all)) = fullest else {
        return Outcome::no_inputs(
            "the report does not contain the used and total memory of a device: add \
             `DeviceCounters` next to the Tensor profiler",
        );
    };
    let most = taken.max as u64;
    let evidence = [
        Evidence::new(format!("peak memory use of device {device}"), bytes(most)),
        Evidence::new("mean memory use", bytes(taken.mean as u64)),
        Evidence::new("total memory", bytes(all)),
        Evidence::new("samples", grouped(taken.samples)),
    ];
    if part(taken.max, all) < limits[0] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Device {device} used {} of its {} of memory ({}).",
            bytes(most),
            bytes(all),
            share(part(taken.max, all), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::default(),
        // A full device costs time only when no memory is left.
        cost: Cost { bytes: Some(most), ..facts.cost(0.0) },
        // Other processes, or allocators that never return memory, may hold it.
        confidence: Confidence::Hint,
        remedy: remedy(facts.framework).to_owned(),
    }])
}

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Burn => {
            "make room ahead of time: use smaller batches with more gradient accumulation \
             (`SupervisedTraining::grads_accumulation`), gradient checkpointing, or 16-bit \
             numbers."
        }
        _ => {
            "make room ahead of time: use smaller batches with more gradient accumulation, or \
             16-bit numbers; the peak in the memory report lists the largest holders."
        }
    }
}

#[cfg(test)]
mod tests {
    use mlprof_events::DeviceCounter;

    use crate::finding::Confidence;
    use crate::findings::samples::{found, healthy, missing, recorded};
    use crate::tensor::{CounterStatistics, DeviceCounterStatistics, TensorReport};

    const NAME: &str = "memory-limit";

    fn taken(share: f64, memory_bytes: Option<u64>) -> TensorReport {
        let max = share * f64::from(1 << 30);
        let counter = DeviceCounter::MemoryUsed;
        let mut report = recorded(Vec::new());
        report.device_counters.push(DeviceCounterStatistics {
            device: 1,
            samples: 100,
            interval_seconds: Some(0.1),
            recorded_seconds: 2.0,
            memory_bytes,
            recording: vec![CounterStatistics { counter, samples: 100, mean: 0.9 * max, max }],
            actions: Vec::new(),
        });
        report
    }

    #[test]
    fn a_device_that_is_nearly_full_is_found_and_one_with_room_is_not() {
        let finding = found(NAME, taken(0.99, Some(1 << 30)));
        assert_eq!((finding.confidence, finding.cost.seconds), (Confidence::Hint, 0.0));
        assert!(finding.sentence.contains("Device 1"), "{finding:?}");
        healthy(NAME, taken(0.5, Some(1 << 30)));
        assert!(missing(NAME, taken(0.99, None)).contains("total memory"));
        assert!(missing(NAME, recorded(Vec::new())).contains("DeviceCounters"));
    }
}
