//! Rule `synchronous-copies`: the host waits for copies.

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "synchronous-copies",
    condition: "the host waits for copies to or from a device for a notable part of the recorded \
                steps",
    thresholds: &[Threshold {
        name: "share",
        default: 0.05,
        why: "minimum share of the recorded steps in which the host waits for copies",
    }],
    is_of_time: true,
    examine,
};

/// CUDA calls that block until the copy is done.
const COPIES: &[&str] = &[
    "cuMemcpy",
    "cuMemcpy2D",
    "cuMemcpyDtoH",
    "cuMemcpyHtoD",
    "cudaMemcpy",
    "cudaMemcpy2D",
    "cudaMemcpyToSymbol",
];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Tensor(_) = facts.report else {
        return Outcome::no_inputs("only the Tensor profiler's report has copies");
    };
    let is_driver = |name: &str| name.starts_with("cuda") || name.starts_with("cuM");
    if !facts.ops().iter().any(|row| !row.is_on_device && is_driver(&row.name)) {
        return Outcome::no_inputs("the report has no calls of the CUDA driver");
    }
    let copies =
        || facts.ops().iter().filter(|row| !row.is_on_device && COPIES.contains(&&*row.name));
    let seconds: f64 = copies().map(|row| row.self_cpu_seconds).sum();
    let evidence = [
        Evidence::new("synchronous copies", grouped(copies().map(|row| row.calls).sum())),
        Evidence::new("host time", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
    ];
    let longest =
        copies().max_by(|one, other| one.self_cpu_seconds.total_cmp(&other.self_cpu_seconds));
    let Some(copy) = longest.filter(|_| facts.share(seconds) >= limits[0]) else {
        return Outcome::healthy(evidence);
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "The host waited for blocking copies ({}) for {} ({}).",
            copy.name,
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: place_of_op(copy),
        cost: facts.cost(seconds),
        confidence: Confidence::Likely,
        remedy: match facts.framework {
            Framework::Tch => {
                "copy pinned memory asynchronously (`Tensor::pin_memory`, `to_device_` with \
                 `non_blocking`), and read values only every few steps."
            }
            _ => {
                "copy the next batch on a separate thread while the device works on the current \
                 one, and read values only every few steps."
            }
        }
        .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};

    const NAME: &str = "synchronous-copies";

    #[test]
    fn copies_that_block_are_found_and_others_are_not() {
        let rows = vec![op("cudaMemcpy", 100, 0.2), op("cuMemcpyDtoH", 100, 0.1)];
        let finding = found(NAME, recorded(rows));
        close(finding.cost.seconds, 0.3, 0.001);
        assert_eq!(finding.place.op.as_deref(), Some("cudaMemcpy"));
        healthy(NAME, recorded(vec![op("cudaMemcpy", 100, 0.01)]));
        healthy(NAME, recorded(vec![op("cudaMemcpyAsync", 100, 0.5)]));
        assert!(missing(NAME, recorded(vec![op("aten::mm", 9, 1.0)])).contains("CUDA"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }
}
