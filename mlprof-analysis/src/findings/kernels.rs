//! Finding rules for kernels.

use mlprof_report::finding::{Confidence, Evidence, FindingParts, Place};
use mlprof_report::findings::{Outcome, Threshold};
use mlprof_report::number::{grouped, share};

use super::Rule;
use super::facts::{Facts, NO_DEVICE, busy, finding, healthy, idle, no_inputs, part_of, time};
use crate::answers::{DeviceAnswers, KernelCategory, KernelTimes, NameTimes, PathKind, PathPart};

pub(super) const SHORT_KERNELS: Rule = Rule {
    name: "short-kernels",
    condition: "kernels take less time than their launch calls, and the device is idle meanwhile",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the time in which launch calls run while the device is idle",
    }],
    examine: short_kernels,
};

pub(super) const DOMINANT_KERNEL: Rule = Rule {
    name: "dominant-kernel",
    condition: "kernels of one name take a large part of the critical path",
    thresholds: &[Threshold {
        name: "share",
        default: 0.3,
        why: "minimum share of the critical path",
    }],
    examine: dominant_kernel,
};

pub(super) const UNFUSED_ELEMENTWISE: Rule = Rule {
    name: "unfused-elementwise",
    condition: "many short elementwise kernels take much of a device's time",
    thresholds: &[
        Threshold { name: "share", default: 0.2, why: "minimum share of the device's busy time" },
        Threshold {
            name: "part",
            default: 0.1,
            why: "minimum share of the time: fusing saves little on a mostly idle device",
        },
        Threshold {
            name: "kernels",
            default: 20.0,
            why: "minimum number of kernels per step, or in a trace without steps: a few may be fully fused \
                  already",
        },
        Threshold {
            name: "median-seconds",
            default: 100e-6,
            why: "maximum median duration: a longer kernel is worth its launch, and usually moves a large \
                  tensor",
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
        return no_inputs("the trace does not have both kernels and their launch calls");
    }
    let mean = |sum: i64, count: u64| (sum as f64 / count as f64) as i64;
    let (mean_launch, mean_kernel) = (mean(launching, launched), mean(running, ran));
    // Launch calls that overlap device work cost no time.
    let saved = launching.min(idle(device));
    let busy = part_of(busy(device), facts.whole_ns());
    let evidence = vec![
        Evidence::new("mean kernel time", time(mean_kernel)),
        Evidence::new("mean launch time", time(mean_launch)),
        Evidence::new("launches", grouped(launched)),
        Evidence::new("busy time of the device", busy.as_str()),
    ];
    if mean_kernel >= mean_launch || facts.part(saved) < limits[0] {
        return healthy(evidence);
    }
    let sentence = format!(
        "A kernel takes {} on average and its launch call {}; the device is busy in {busy} of the time.",
        time(mean_kernel),
        time(mean_launch),
    );
    Outcome::Found(vec![FindingParts {
        remedy: "give each kernel more work (larger batches, fused ops with `torch.compile`), or launch many \
                 kernels at once with device graphs."
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
        return no_inputs("the trace has no elementwise kernels");
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
    evidence.extend(longest.map(|row| Evidence::new("longest kernel", short(&row.name))));
    let count = match facts.step_count() {
        Some(_) => format!("{} per step", grouped(per_step.round() as u64)),
        None => grouped(row.calls),
    };
    let sentence = format!(
        "Elementwise kernels take {of_busy} of the busy time of device {}: {count}, with a median duration of \
         {}.",
        device.device,
        time(row.median_ns),
    );
    Outcome::Found(vec![FindingParts {
        place: longest.map(|row| Place::kernel(&*row.name)).unwrap_or_default(),
        remedy: "fuse chains of elementwise ops so that each tensor is read and written once: \
                 `torch.compile`, burn's fusion, fused optimizers (`fused=True`), fused kernels for bias, \
                 activation, dropout and rotary embedding; remove unnecessary casts and copies."
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
    let mut evidence = vec![Evidence::new("longest kernel on the critical path", time(taken))];
    evidence.extend(
        longest.map(|part| Evidence::new("its calls on the critical path", grouped(part.count))),
    );
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
        remedy: "compare the kernel with the device's peak performance: speed up matrix products with fewer \
                 bits per element (`bf16`, `fp8`), sizes that are multiples of 64, and a tuned library; fuse \
                 other kernels with their neighbours."
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
