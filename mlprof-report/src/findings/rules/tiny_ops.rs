//! Rule `tiny-ops`: many ops take hardly longer than the overhead of a call.

use mlprof_events::ActionKind;

use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::framework::Framework;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::KeyAverage;

pub(super) static RULE: Rule = Rule {
    name: "tiny-ops",
    condition: "much of the recorded steps goes into many ops that take little longer than a call: \
                most of it, or less with thousands of ops",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.5,
            why: "minimum share of the recorded steps for tiny ops",
        },
        Threshold {
            name: "seconds-per-op",
            default: 10e-6,
            why: "maximum mean duration of a tiny op in seconds: selecting the kernel, checking \
                  shapes and creating the output take a few microseconds",
        },
        Threshold {
            name: "least-ops-per-step",
            default: 100.0,
            why: "minimum number of tiny ops in a step, so that there is something to combine",
        },
        Threshold {
            name: "share-of-many",
            default: 0.33,
            why: "minimum share of the recorded steps where a step has very many tiny ops, which \
                  come from a loop over elements or time steps",
        },
        Threshold {
            name: "many-ops-per-step",
            default: 1000.0,
            why: "number of tiny ops in a step from which they are very many: networks with \
                  hundreds of layers have fewer",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let ops = || {
        let ops = facts.ops().iter();
        let is_op = |row: &&KeyAverage| row.kind == ActionKind::Op && !row.is_on_device;
        ops.filter(is_op).filter(|row| row.calls > 0 && !is_driver_call(&row.name))
    };
    let Some(steps) = facts.steps.filter(|_| ops().any(|row| row.self_cpu_seconds > 0.0)) else {
        return Outcome::no_inputs("the report has no ops that were timed on the host");
    };
    let mean = |row: &KeyAverage| row.self_cpu_seconds / row.calls as f64;
    let tiny = || ops().filter(|row| mean(row) < limits[1]);
    let seconds: f64 = tiny().map(|row| row.self_cpu_seconds).sum();
    let calls: u64 = tiny().map(|row| row.calls).sum();
    let per_step = calls as f64 / steps as f64;
    let evidence = [
        Evidence::new("tiny ops", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
        Evidence::new("tiny ops per step", grouped(per_step.round() as u64)),
        Evidence::new("all ops", grouped(ops().map(|row| row.calls).sum())),
    ];
    let most = tiny().max_by(|one, other| one.self_cpu_seconds.total_cmp(&other.self_cpu_seconds));
    let is_loop = per_step >= limits[4];
    let least_share = if is_loop { limits[0].min(limits[3]) } else { limits[0] };
    let is_much = facts.share(seconds) >= least_share && per_step >= limits[2];
    let Some(most) = most.filter(|_| is_much) else { return Outcome::healthy(evidence) };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} ops per step take less than {} each, {} in total ({}).",
            grouped(per_step.round() as u64),
            duration(limits[1]),
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: place_of_op(most),
        cost: facts.cost(seconds),
        // Small ops are unavoidable in a small network.
        confidence: Confidence::Hint,
        remedy: if is_loop {
            format!("{LOOP} {}", remedy(facts.framework))
        } else {
            remedy(facts.framework).to_owned()
        },
    }])
}

/// Returns `true` for driver calls such as `cudaLaunchKernel` and `cuMemcpyAsync`, which are part
/// of other ops.
fn is_driver_call(name: &str) -> bool {
    let rest = name.strip_prefix("cuda").or_else(|| name.strip_prefix("cu"));
    rest.is_some_and(|rest| rest.starts_with(|letter: char| letter.is_ascii_uppercase()))
}

const LOOP: &str = "a loop calls them: compute independent iterations in one op on a whole tensor;";

fn remedy(framework: Framework) -> &'static str {
    match framework {
        Framework::Burn => {
            "use larger batches, so that each op does more; on CubeCL devices the feature `fusion` \
             combines several ops into one."
        }
        Framework::Tch => {
            "use larger batches, so that each op does more; use combined ops (`linear`, \
             `layer_norm`, `scaled_dot_product_attention`) instead of their parts."
        }
        _ => {
            "use larger batches, so that each op does more; use combined ops (`affine`, \
             `softmax_last_dim`, `layer_norm`) instead of their parts."
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};

    const NAME: &str = "tiny-ops";

    #[test]
    fn thousands_of_ops_of_a_few_microseconds_are_found() {
        // There are 3,000 ops per step of 5 µs each, in 100 steps of 20 ms.
        let rows = vec![op("candle::add", 200_000, 1.0), op("candle::mul", 100_000, 0.5)];
        let finding = found(NAME, recorded(rows));
        close(finding.cost.seconds, 1.5, 0.001);
        assert_eq!(finding.confidence, Confidence::Hint);
        assert_eq!(finding.place.op.as_deref(), Some("candle::add"));
    }

    #[test]
    fn a_loop_that_calls_thousands_is_found_where_it_takes_less_than_half() {
        // There are 4,220 ops per step of 2 µs each, which is 42 % of the steps.
        let finding = found(NAME, recorded(vec![op("candle::affine", 422_000, 0.844)]));
        close(finding.cost.seconds, 0.844, 0.001);
        assert!(finding.sentence.starts_with("4,220 ops per step take less than"), "{finding:?}");
        assert!(finding.remedy.starts_with("a loop calls them"), "{finding:?}");
        assert_eq!(finding.place.op.as_deref(), Some("candle::affine"));
        // The first report has too small a share, and the second one has as few ops as a deep
        // network.
        healthy(NAME, recorded(vec![op("candle::affine", 422_000, 0.2)]));
        healthy(NAME, recorded(vec![op("candle::affine", 60_000, 0.5)]));
        assert!(
            missing(NAME, recorded(vec![op("cudaLaunchKernel", 422_000, 0.844)]))
                .contains("no ops")
        );
    }

    #[test]
    fn a_few_are_not_and_neither_are_ops_that_work() {
        healthy(NAME, recorded(vec![op("candle::matmul", 5_000, 1.5)]));
        healthy(NAME, recorded(vec![op("candle::add", 90_000, 0.85)]));
        healthy(NAME, recorded(vec![op("candle::add", 9_000, 0.08)]));
        assert!(missing(NAME, recorded(Vec::new())).contains("no ops"));
        assert!(missing(NAME, steps(100, 0.02)).contains("no ops"));
    }
}
