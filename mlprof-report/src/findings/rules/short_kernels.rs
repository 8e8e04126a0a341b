//! Rule `short-kernels`: a device's kernels run for less time than the host needs to launch them.

use mlprof_events::ActionKind;

use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::device_seconds;

pub(super) static RULE: Rule = Rule {
    name: "short-kernels",
    condition: "kernels take less time on the device than their launches on the host, and the \
                device is idle",
    thresholds: &[Threshold {
        name: "share",
        default: 0.1,
        why: "minimum share of the recorded steps for launches, limited to the idle time of the \
              device",
    }],
    is_of_time: true,
    examine,
};

/// Driver and runtime calls that launch a kernel.
const LAUNCHES: &[&str] = &[
    "cuLaunchKernel",
    "cuLaunchKernelEx",
    "cudaLaunchKernel",
    "cudaLaunchKernelExC",
    "cudaLaunchCooperativeKernel",
];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let launches =
        || facts.ops().iter().filter(|row| !row.is_on_device && LAUNCHES.contains(&&*row.name));
    let on_device = || facts.ops().iter().filter(|row| row.is_on_device);
    let is_kernel = |name: &str| !name.starts_with("Memcpy") && !name.starts_with("Memset");
    let kernels =
        || on_device().filter(|row| row.kind == ActionKind::Kernel && is_kernel(&row.name));
    let launched: u64 = launches().map(|row| row.calls).sum();
    let ran: u64 = kernels().map(|row| row.calls).sum();
    if launched == 0 || ran == 0 {
        return Outcome::no_inputs(
            "the report has no CUDA launches with their kernels: use the Tensor profiler on a \
             machine with CUDA",
        );
    }
    let launching: f64 = launches().map(|row| row.self_cpu_seconds).sum();
    let running = device_seconds(kernels());
    let busy = device_seconds(facts.ops());
    let mean_launch = launching / launched as f64;
    let mean_kernel = running / ran as f64;
    // Launching while the device works costs no time.
    let saved = launching.min((facts.seconds - busy).max(0.0));
    let evidence = [
        Evidence::new("mean kernel", duration(mean_kernel)),
        Evidence::new("mean launch", duration(mean_launch)),
        Evidence::new("launches", grouped(launched)),
        Evidence::new("device busy", share(facts.share(busy), 1.0)),
    ];
    let most = kernels().max_by_key(|row| row.calls);
    let is_bound = mean_kernel < mean_launch && facts.share(saved) >= limits[0];
    let Some(most) = most.filter(|_| is_bound) else { return Outcome::healthy(evidence) };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Kernels take {} on average and a launch takes {}: launches took {}, and the device \
             was busy {} of the time.",
            duration(mean_kernel),
            duration(mean_launch),
            duration(launching),
            share(facts.share(busy), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::kernel(&*most.name),
        cost: facts.cost(saved),
        confidence: Confidence::Likely,
        remedy: match facts.framework {
            Framework::Burn => {
                "use larger batches, so that each kernel does more; the feature `fusion` combines \
                 several kernels into one."
            }
            _ => {
                "use larger batches, so that each kernel does more; use ops that combine several \
                  steps."
            }
        }
        .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, kernel, missing, op, recorded};

    const NAME: &str = "short-kernels";

    #[test]
    fn kernels_shorter_than_their_launches_are_found() {
        let rows = vec![op("cudaLaunchKernel", 100_000, 0.8), kernel("add", 100_000, 0.2)];
        let finding = found(NAME, recorded(rows));
        close(finding.cost.seconds, 0.8, 0.001);
        assert_eq!(finding.place.kernel.as_deref(), Some("add"));
        // The device needs its busy time in any case, so only the rest can be saved.
        let copy = kernel("Memcpy DtoD (Device -> Device)", 10, 1.3);
        let rows = vec![op("cuLaunchKernel", 100_000, 0.8), kernel("add", 100_000, 0.2), copy];
        close(found(NAME, recorded(rows)).cost.seconds, 0.5, 0.001);
    }

    #[test]
    fn long_kernels_are_not_and_neither_is_a_device_that_is_busy() {
        let launches = || op("cudaLaunchKernel", 1_000, 0.3);
        healthy(NAME, recorded(vec![launches(), kernel("gemm", 1_000, 1.5)]));
        let copy = kernel("Memcpy DtoD (Device -> Device)", 10, 1.8);
        healthy(NAME, recorded(vec![launches(), kernel("add", 1_000, 0.1), copy]));
        assert!(missing(NAME, recorded(vec![kernel("add", 9, 1.0)])).contains("launches"));
    }
}
