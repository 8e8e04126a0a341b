//! Finding rules for copies and for uneven devices.

use mlprof_report::finding::{Evidence, FindingParts, Place};
use mlprof_report::findings::{Outcome, Threshold};
use mlprof_report::number::{grouped, share};

use super::Rule;
use super::facts::{Facts, NO_DEVICE, finding, healthy, no_inputs, time};
use crate::answers::{Bandwidth, DeviceAnswers};

pub(super) const EXPOSED_COPIES: Rule = Rule {
    name: "exposed-copies",
    condition: "a device spends much of the time on copies or fills without computing",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the time in which a device only copies or fills memory",
    }],
    examine: exposed_copies,
};

pub(super) const PAGEABLE_COPIES: Rule = Rule {
    name: "pageable-copies",
    condition: "copies from or to pageable host memory take much of the time",
    thresholds: &[Threshold {
        name: "share",
        default: 0.05,
        why: "minimum share of the time: copies of pinned memory take half of it or less, and overlap with \
              kernels",
    }],
    examine: pageable_copies,
};

pub(super) const SLOW_DEVICE: Rule = Rule {
    name: "slow-device",
    condition: "one device computes longer than the others",
    thresholds: &[Threshold {
        name: "longer",
        default: 0.1,
        why: "minimum excess over the median compute time of all devices, as a share of the median",
    }],
    examine: slow_device,
};

fn exposed_copies(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let exposed_of = |device: &DeviceAnswers| device.times.exposed_memory_ns;
    let Some(device) = facts.devices.iter().max_by_key(|device| exposed_of(device)) else {
        return no_inputs(NO_DEVICE);
    };
    let exposed = exposed_of(device);
    let mut evidence = vec![Evidence::new("copies and fills, not hidden", time(exposed))];
    evidence.extend(device.copies.iter().take(3).map(|row| {
        Evidence::new(
            row.name.as_str(),
            format!("{} in {} copies", time(row.busy_ns), grouped(row.count)),
        )
    }));
    if facts.part(exposed) < limits[0] {
        return healthy(evidence);
    }
    let longest = device.copies.first().map(|row| Place::kernel(&*row.name));
    let sentence = format!(
        "Device {} only copies and fills memory in {} of {}.",
        device.device,
        facts.share(exposed),
        facts.time()
    );
    Outcome::Found(vec![FindingParts {
        place: longest.unwrap_or_default(),
        remedy: "copy the next batch during the current step (pinned memory and `non_blocking`, on a separate \
                 stream), copy less, or keep data on the device."
            .to_owned(),
        ..finding(EXPOSED_COPIES.name, sentence, evidence, facts.cost(exposed))
    }.build()])
}

fn pageable_copies(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    if facts.devices.is_empty() {
        return no_inputs(NO_DEVICE);
    }
    let pageable = |device: &'_ DeviceAnswers| -> i64 {
        let copies = device.copies.iter().filter(is_pageable);
        copies.map(|row| row.busy_ns).sum()
    };
    let Some(device) = facts.devices.iter().max_by_key(|device| pageable(device)) else {
        return no_inputs(NO_DEVICE);
    };
    let taken = pageable(device);
    let copies = || device.copies.iter().filter(is_pageable);
    let count: u64 = copies().map(|row| row.count).sum();
    let evidence = vec![
        Evidence::new("copies of pageable memory", grouped(count)),
        Evidence::new("device time", time(taken)),
        Evidence::new("share", facts.share(taken)),
    ];
    let Some(longest) = copies().next().filter(|_| facts.part(taken) >= limits[0]) else {
        return healthy(evidence);
    };
    let sentence = format!(
        "{} copies of pageable host memory take {} of {} on device {}.",
        grouped(count),
        facts.share(taken),
        facts.time(),
        device.device
    );
    Outcome::Found(vec![FindingParts {
        place: Place::kernel(&*longest.name),
        remedy: "pin the host memory before copying (`pin_memory`), make fewer and larger copies, or keep the \
                 data on the device."
            .to_owned(),
        ..finding(PAGEABLE_COPIES.name, sentence, evidence, facts.cost(taken))
    }.build()])
}

fn is_pageable(row: &&Bandwidth) -> bool {
    row.name.contains("Pageable")
}

fn slow_device(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let mut devices: Vec<&DeviceAnswers> =
        facts.devices.iter().filter(|device| device.times.compute_ns > 0).collect();
    devices.sort_by_key(|device| device.times.compute_ns);
    let [.., slowest] = devices[..] else { return no_inputs(NO_DEVICE) };
    if devices.len() < 2 {
        return no_inputs(
            "the trace has only one device; run mlprof analyze with the traces of all ranks to compare ranks",
        );
    }
    let middle = devices[(devices.len() - 1) / 2].times.compute_ns;
    let longest = slowest.times.compute_ns;
    let evidence = vec![
        Evidence::new(format!("compute time of device {}", slowest.device), time(longest)),
        Evidence::new("median compute time", time(middle)),
        Evidence::new("devices", grouped(devices.len() as u64)),
    ];
    let more = longest - middle;
    if (more as f64) < limits[0] * middle as f64 || facts.part(more) < limits[0] / 2.0 {
        return healthy(evidence);
    }
    let sentence = format!(
        "Device {} computes {} longer than the median device ({} instead of {}).",
        slowest.device,
        share(more as f64, middle as f64),
        time(longest),
        time(middle)
    );
    Outcome::Found(vec![FindingParts {
        remedy: "balance the work of the devices (sequence lengths, experts, pipeline layers); if it is \
                 balanced, check whether temperature or power throttles this device's clock (`nvidia-smi -q -d \
                 PERFORMANCE`)."
            .to_owned(),
        ..finding(SLOW_DEVICE.name, sentence, evidence, facts.cost(more))
    }.build()])
}
