//! Finding rules for kernels.

use mlprof_report::finding::{Confidence, Evidence, FindingParts, Place};
use mlprof_report::findings::{Outcome, Threshold};
use mlprof_report::number::{grouped, share};

use super::Rule;
use super::facts::{Facts, NO_DEVICE, busy, finding, healthy, idle, no_inputs, part_of, time};
use crate::answers::{DeviceAnswers, KernelCategory, KernelTimes, NameTimes, PathKind, PathPart};

pub(super) const SHORT_KERNELS: Rule = Rule {
    name: "short-kernels",
    condition: "kernels take less time than the calls that launch them, and the device is idle",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "the part of the time that launching must be, of what the device was idle",
    }],
    examine: short_kernels,
};

pub(super) const DOMINANT_KERNEL: Rule = Rule {
    name: "dominant-kernel",
    condition: "kernels of one name take a large part of the critical path",
    thresholds: &[Threshold {
        name: "share",
        default: 0.3,
        why: "the part of the critical path that they must take",
    }],
    examine: dominant_kernel,
};

pub(super) const UNFUSED_ELEMENTWISE: Rule = Rule {
    name: "unfused-elementwise",
    condition: "many short elementwise kernels take a large part of the time of a device",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.2,
            why: "the part of the device's busy time that they must take",
        },
        Threshold {
            name: "part",
            default: 0.1,
            why: "the part of the time that they must take: of a device that is mostly idle fusing saves little",
        },
        Threshold {
            name: "kernels",
            default: 20.0,
            why: "the number of them in a step, or in a trace without steps: a few may be all that there are to fuse",
        },
        Threshold {
            name: "median-seconds",
            default: 100e-6,
            why: "the longest median: a longer kernel is worth its launch, and mostly moves a large tensor",
        },
    ],
    examine: unfused_elementwise,
};

fn short_kernels(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Some(device) = facts.busiest() else { return no_inputs(NO_DEVICE) };
    // A graph launch starts many kernels with one call.
    let is_launch = |row: &&NameTimes| {
        row.category.is_runtime() && row.name.contains("Launch") && !row.name.contains("Graph")
    };
    let launches = || facts.names.iter().filter(is_launch);
    let launched: u64 = launches().map(|row| row.calls).sum();
    let launching: i64 = launches().map(|row| row.self_ns).sum();
    let copied: u64 = device.copies.iter().map(|row| row.count).sum();
    let ran = (device.launches.launched + device.launches.unknown).saturating_sub(copied);
    let running = device.times.compute_sum_ns + device.times.communication_sum_ns;
    if launched == 0 || ran == 0 {
        return no_inputs("the trace has no kernels beside the calls that launch them");
    }
    let mean = |sum: i64, count: u64| (sum as f64 / count as f64) as i64;
    let (mean_launch, mean_kernel) = (mean(launching, launched), mean(running, ran));
    // Launch calls that overlap device work cost no time.
    let saved = launching.min(idle(device));
    let busy = part_of(busy(device), facts.whole_ns());
    let evidence = vec![
        Evidence::new("mean kernel", time(mean_kernel)),
        Evidence::new("mean launch", time(mean_launch)),
        Evidence::new("launches", grouped(launched)),
        Evidence::new("device busy", busy.as_str()),
    ];
    if mean_kernel >= mean_launch || facts.part(saved) < limits[0] {
        return healthy(evidence);
    }
    let sentence = format!(
        "Kernels take {} on average and launching one {}; the device is busy {busy} of the time.",
        time(mean_kernel),
        time(mean_launch),
    );
    Outcome::Found(vec![FindingParts {
        remedy: "make kernels do more: larger batches, fused ops (`torch.compile`), or launch many at once with graphs \
                 of the device."
            .to_owned(),
        ..finding(SHORT_KERNELS.name, sentence, evidence, facts.cost(saved))
    }.build()])
}

fn unfused_elementwise(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let elementwise = |device: &'_ DeviceAnswers| {
        device.categories.iter().find(|row| row.category == KernelCategory::Elementwise).cloned()
    };
    let of_devices = facts.devices.iter().filter_map(|device| Some((device, elementwise(device)?)));
    let Some((device, row)) = of_devices.max_by_key(|(_, row)| row.total_ns) else {
        return no_inputs("no elementwise kernel ran on a device");
    };
    let steps = facts.step_count().unwrap_or(1);
    let per_step = row.calls as f64 / steps as f64;
    let of_busy = share(row.busy_share, 1.0);
    let mut evidence = vec![
        Evidence::new("share of the device's busy time", of_busy.as_str()),
        Evidence::new("elementwise kernels", grouped(row.calls)),
        Evidence::new("median", time(row.median_ns)),
        Evidence::new("device time", time(row.total_ns)),
    ];
    let is_short = row.median_ns as f64 / 1e9 <= limits[3];
    let is_large = row.busy_share >= limits[0] && facts.part(row.total_ns) >= limits[1];
    if !is_large || per_step < limits[2] || !is_short {
        return healthy(evidence);
    }
    let of_category = |row: &&KernelTimes| row.category == KernelCategory::Elementwise;
    let longest = device.kernels.iter().find(of_category);
    evidence.extend(longest.map(|row| Evidence::new("most time", short(&row.name))));
    let count = match facts.step_count() {
        Some(_) => format!("{} a step", grouped(per_step.round() as u64)),
        None => grouped(row.calls),
    };
    let sentence = format!(
        "Elementwise kernels take {of_busy} of the busy time of device {}: {count}, with a median of {}.",
        device.device,
        time(row.median_ns),
    );
    Outcome::Found(vec![FindingParts {
        place: longest.map(|row| Place::kernel(&*row.name)).unwrap_or_default(),
        remedy: "fuse chains of elementwise ops, so that each tensor is read and written once: `torch.compile`, \
                 burn's fusion, fused optimizers (`fused=True`), fused kernels for bias, activation, dropout and \
                 rotary embedding; leave out casts and copies that are not needed."
            .to_owned(),
        ..finding(UNFUSED_ELEMENTWISE.name, sentence, evidence, facts.cost(row.total_ns))
    }.build()])
}

fn dominant_kernel(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    if facts.devices.is_empty() {
        return no_inputs(NO_DEVICE);
    }
    let computes = |part: &&PathPart| part.kind == PathKind::Compute && part.name.is_some();
    let longest = facts.path.iter().filter(computes).max_by_key(|part| part.duration_ns);
    let taken = longest.map_or(0, |part| part.duration_ns);
    let mut evidence = vec![Evidence::new("the longest on the critical path", time(taken))];
    evidence.extend(longest.map(|part| Evidence::new("stretches of it", grouped(part.count))));
    let name = longest.and_then(|part| part.name.as_deref()).unwrap_or_default();
    if facts.part(taken) < limits[0] {
        return healthy(evidence);
    }
    let sentence =
        format!("One kernel takes {} of the critical path: {}.", facts.share(taken), short(name));
    Outcome::Found(vec![FindingParts {
        place: Place::kernel(name),
        // The kernel may be the intended main work of the device.
        confidence: Confidence::Hint,
        remedy: "compare it with what the device can do: fewer bits per element (`bf16`, `fp8`), sizes that are \
                 multiples of 64 and a tuned library make products of matrices faster; fuse anything else with its \
                 neighbours."
            .to_owned(),
        ..finding(DOMINANT_KERNEL.name, sentence, evidence, facts.cost(taken))
    }.build()])
}

/// Returns a kernel name shortened to 80 characters. Full names can have thousands of characters.
fn short(name: &str) -> String {
    const LONGEST: usize = 80;
    match name.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name.to_owned(),
    }
}
