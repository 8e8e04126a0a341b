//! Rule `pageable-copies`: copies between host and device use memory that is not pinned.

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::device_seconds;

pub(super) static RULE: Rule = Rule {
    name: "pageable-copies",
    condition: "copies from or to pageable host memory take a notable part of the recorded steps",
    thresholds: &[Threshold {
        name: "share",
        default: 0.05,
        why: "minimum share of the recorded steps for such copies: pinned copies take half the \
              time or less, and overlap with kernels",
    }],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Tensor(_) = facts.report else {
        return Outcome::no_inputs("only the Tensor profiler's report has copies");
    };
    if facts.ops().iter().all(|row| !row.is_on_device) {
        return Outcome::no_inputs("the report has no device activity");
    }
    let copies =
        || facts.ops().iter().filter(|row| row.is_on_device && row.name.contains("Pageable"));
    let seconds = device_seconds(copies());
    let evidence = [
        Evidence::new("copies of pageable memory", grouped(copies().map(|row| row.calls).sum())),
        Evidence::new("device time", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
    ];
    let longest = copies().max_by(|one, other| one.device_seconds.total_cmp(&other.device_seconds));
    let Some(copy) = longest.filter(|_| facts.share(seconds) >= limits[0]) else {
        return Outcome::healthy(evidence);
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Copies of pageable memory took {} of device time ({}).",
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: Place::kernel(&*copy.name),
        cost: facts.cost(seconds),
        confidence: Confidence::Likely,
        remedy: match facts.framework {
            Framework::Tch => {
                "pin batches before you copy them (`Tensor::pin_memory`), or keep the data on the \
                 device: a small data set fits there completely."
            }
            _ => {
                "copy less often and more at once, or keep the data on the device: a small data \
                 set fits there completely."
            }
        }
        .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, kernel, missing, op, recorded};

    const NAME: &str = "pageable-copies";

    #[test]
    fn large_ones_are_found() {
        let copy = "Memcpy HtoD (Pageable -> Device)";
        let finding = found(NAME, recorded(vec![kernel(copy, 100, 0.3), kernel("gemm", 100, 1.0)]));
        close(finding.cost.seconds, 0.3, 0.001);
        assert_eq!(finding.place.kernel.as_deref(), Some(copy));
    }

    #[test]
    fn small_ones_and_pinned_ones_are_not() {
        healthy(NAME, recorded(vec![kernel("Memcpy HtoD (Pageable -> Device)", 9, 0.01)]));
        healthy(NAME, recorded(vec![kernel("Memcpy HtoD (Pinned -> Device)", 100, 0.3)]));
        assert!(missing(NAME, recorded(vec![op("aten::mm", 1, 1.0)])).contains("device"));
    }
}
