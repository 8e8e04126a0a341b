//! Finding rules for communication.

use mlprof_report::finding::{Confidence, Evidence, FindingParts};
use mlprof_report::findings::{Outcome, Threshold};
use mlprof_report::number::{bytes, grouped};

use super::Rule;
use super::facts::{Facts, NO_DEVICE, finding, healthy, no_inputs, part_of, time};
use crate::answers::{CollectiveTimes, DeviceAnswers, WorkKind};

pub(super) const EXPOSED_COMMUNICATION: Rule = Rule {
    name: "exposed-communication",
    condition: "a device spends much of the time on communication without computing",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the time in which a device communicates without computing",
    }],
    examine: exposed,
};

pub(super) const SLOW_COLLECTIVES: Rule = Rule {
    name: "slow-collectives",
    condition: "collectives with large messages are slower than a slow link, and the device waits for them",
    thresholds: &[
        Threshold {
            name: "bus-gb-per-second",
            default: 5.0,
            why: "bus bandwidth that even the fastest collective stays below: links within a machine have 12 \
                  (PCIe 3) to 900 GB/s, a 100 Gbit/s network has 12",
        },
        Threshold {
            name: "least-bytes",
            default: 1_048_576.0,
            why: "minimum message size in bytes: latency dominates the time of smaller messages",
        },
        Threshold {
            name: "share",
            default: 0.05,
            why: "minimum share of the time that a link of this bandwidth would save",
        },
    ],
    examine: slow,
};

fn exposed(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let exposed_of = |device: &DeviceAnswers| device.times.exposed_communication_ns;
    let Some(device) = facts.devices.iter().max_by_key(|device| exposed_of(device)) else {
        return no_inputs(NO_DEVICE);
    };
    let exposed = exposed_of(device);
    let mut evidence = vec![Evidence::new("communicating, not hidden", time(exposed))];
    let overlap = device.overlap.iter().find(|overlap| overlap.kind == WorkKind::Communication);
    evidence.extend(overlap.map(|overlap| {
        let hidden = part_of(overlap.hidden_ns, overlap.total_ns);
        Evidence::new(
            "communication in total",
            format!("{}, {hidden} of it hidden behind computing", time(overlap.total_ns)),
        )
    }));
    if facts.part(exposed) < limits[0] {
        return healthy(evidence);
    }
    let mut sentence = format!(
        "Exposed communication takes {} of {} on device {}",
        facts.share(exposed),
        facts.time(),
        device.device
    );
    if let Some(row) = device.collectives.first()
        && let Some(rate) = row.most_bus_gb_per_s
    {
        sentence += &format!("; {} reach {rate:.1} GB/s bus bandwidth", several(row));
    }
    sentence.push('.');
    Outcome::Found(vec![FindingParts {
        remedy: "overlap communication with computing (gradient buckets during backward, prefetched \
                 all-gathers), send less data (16-bit elements, larger messages), or balance the ranks: traces \
                 of all ranks show which rank arrives last."
            .to_owned(),
        ..finding(EXPOSED_COMMUNICATION.name, sentence, evidence, facts.cost(exposed))
    }.build()])
}

fn slow(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let devices = facts.devices;
    if devices.iter().all(|device| device.collectives.is_empty()) {
        return no_inputs(
            "the trace has no message sizes (PyTorch writes them with `record_param_comms`)",
        );
    }
    let rate = |row: &CollectiveTimes| row.most_bus_gb_per_s.unwrap_or(f64::INFINITY);
    let is_large = |row: &&CollectiveTimes| row.message_bytes as f64 >= limits[1];
    let slow_of = |device: &DeviceAnswers| {
        let rows = device.collectives.iter().filter(is_large);
        let slow = rows.filter(|row| rate(row) < limits[0]);
        let saved = slow.map(|row| row.total_ns as f64 * (1.0 - rate(row) / limits[0]));
        // Hidden communication costs no time.
        (saved.sum::<f64>() as i64).min(device.times.exposed_communication_ns)
    };
    let worst = devices.iter().max_by_key(|device| slow_of(device));
    let rows = worst.map(|device| &device.collectives[..]).unwrap_or_default();
    let large = || rows.iter().filter(is_large);
    let mut evidence = vec![Evidence::new(
        "collectives with large messages",
        grouped(large().map(|row| row.count).sum()),
    )];
    evidence.extend(large().take(3).map(|row| {
        let ranks = grouped(row.group_size);
        let times = format!("{} to {}", time(row.shortest_ns), time(row.longest_ns));
        let value = match row.most_bus_gb_per_s {
            Some(rate) => format!("at most {rate:.2} GB/s bus bandwidth, {times}"),
            None => times,
        };
        Evidence::new(format!("{} among {ranks} ranks", several(row)), value)
    }));
    let saved = worst.map_or(0, slow_of);
    let first = large().find(|row| rate(row) < limits[0]);
    let Some(row) = first.filter(|_| facts.part(saved) >= limits[2]) else {
        return healthy(evidence);
    };
    let mut sentence = several(row);
    sentence[..1].make_ascii_uppercase();
    let sentence = format!(
        "{sentence} among {} ranks reach at most {:.1} GB/s bus bandwidth, less than a slow link ({} GB/s).",
        grouped(row.group_size),
        rate(row),
        limits[0],
    );
    // Even the fastest collective may have waited for another rank. This is less likely if there
    // are many of them.
    let confidence = if row.count >= 3 { Confidence::Likely } else { Confidence::Hint };
    let mut cost = facts.cost(saved);
    cost.is_estimated = true;
    Outcome::Found(vec![FindingParts {
        confidence,
        remedy: "benchmark the link alone (`all_reduce_perf` of nccl-tests or rccl-tests), and check which \
                 transport is used (`NCCL_DEBUG=INFO`: peer access, InfiniBand, sockets). If the link is fast, \
                 look for a rank that arrives late."
            .to_owned(),
        ..finding(SLOW_COLLECTIVES.name, sentence, evidence, cost)
    }.build()])
}

/// Returns a phrase such as `all-reduces of 16.8 MiB`.
fn several(row: &CollectiveTimes) -> String {
    let name = row.collective.replace('_', "-");
    format!("{name}s of {}", bytes(row.message_bytes))
}
