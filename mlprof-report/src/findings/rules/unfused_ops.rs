//! Rule `unfused-ops`: elementwise ops of CubeCL run one by one.

use mlprof_events::ActionKind;

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding};
use crate::findings::facts::{Facts, place_of_op};
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{duration, grouped, share};
use crate::tensor::KeyAverage;

pub(super) static RULE: Rule = Rule {
    name: "unfused-ops",
    condition: "unfused elementwise ops on a CubeCL device take a large part of the recorded steps",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.2,
            why: "minimum share of the recorded steps for elementwise ops outside of fused blocks",
        },
        Threshold {
            name: "least-ops-per-step",
            default: 10.0,
            why: "minimum number of such ops in a step: a few stand between ops that cannot be \
                  fused",
        },
    ],
    is_of_time: true,
    examine,
};

/// Ops that read and write each number once. burn fuses them with neighbouring ops into one kernel.
const ELEMENTWISE: [&str; 32] = [
    "abs",
    "add",
    "cast",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "cos",
    "div",
    "equal",
    "erf",
    "exp",
    "floor",
    "greater",
    "greater_equal",
    "log",
    "log1p",
    "lower",
    "lower_equal",
    "mask_fill",
    "mask_where",
    "mul",
    "neg",
    "not_equal",
    "powf",
    "powi",
    "recip",
    "relu",
    "sin",
    "sqrt",
    "sub",
    "tanh",
];

/// Suffixes of op names for a scalar operand.
const BY_A_NUMBER: [&str; 2] = ["_scalar", "_elem"];

/// Prefixes of op names that exist only on CubeCL devices.
const OF_CUBECL: [&str; 2] = ["burn::fused[", "cubecl::"];

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let (Report::Tensor(_), Some(steps)) = (facts.report, facts.steps) else {
        return Outcome::no_inputs("only the Tensor profiler's report has ops of steps");
    };
    let is_of_cubecl = |row: &KeyAverage| OF_CUBECL.iter().any(|of| row.name.starts_with(of));
    if !facts.ops().iter().any(is_of_cubecl) {
        return Outcome::no_inputs(
            "the report has no ops of a CubeCL device: turn on mlprof-burn's feature `cubecl`",
        );
    }
    let alone = || facts.ops().iter().filter(|row| is_elementwise(row) && own(row) > 0.0);
    let seconds: f64 = alone().map(own).sum();
    // The same rows also count the ops inside fused blocks, which have no time of their own.
    let calls: u64 = alone().map(|row| row.calls).sum();
    let blocks: u64 = facts
        .ops()
        .iter()
        .filter(|row| row.name.starts_with(OF_CUBECL[0]))
        .map(|row| row.calls)
        .sum();
    let evidence = [
        Evidence::new("unfused elementwise ops", duration(seconds)),
        Evidence::new("share", share(facts.share(seconds), 1.0)),
        Evidence::new("calls of elementwise ops, fused or not", grouped(calls)),
        Evidence::new("fused blocks", grouped(blocks)),
    ];
    let longest = alone().max_by(|one, other| own(one).total_cmp(&own(other)));
    let is_much = facts.share(seconds) >= limits[0] && calls as f64 >= limits[1] * steps as f64;
    let Some(longest) = longest.filter(|_| is_much) else { return Outcome::healthy(evidence) };
    let remedy = match blocks {
        0 => {
            "turn on burn's feature `fusion`, which combines consecutive elementwise ops into one \
             kernel."
        }
        _ => {
            "keep elementwise ops of the same shape together: reading a value, a view or an op of \
             another shape between them ends a block."
        }
    };
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "Unfused elementwise ops took {} ({}).",
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: place_of_op(longest),
        // This is an upper bound: in a fused kernel, these ops could cost no additional time.
        cost: facts.cost(seconds),
        // The report does not show which of them have neighbouring ops.
        confidence: Confidence::Hint,
        remedy: remedy.to_owned(),
    }])
}

/// Returns `true` for elementwise ops, such as `burn::add` and `burn::add_scalar`.
fn is_elementwise(row: &KeyAverage) -> bool {
    let name = row.name.strip_prefix("burn::").unwrap_or_default();
    let by_a_number = BY_A_NUMBER.iter().find_map(|ending| name.strip_suffix(ending));
    let name = by_a_number.unwrap_or(name);
    row.kind == ActionKind::Op && !row.is_on_device && ELEMENTWISE.contains(&name)
}

/// Returns the self device time in seconds if known, otherwise the host time of submitting the op.
fn own(row: &KeyAverage) -> f64 {
    match row.self_device_seconds > 0.0 {
        true => row.self_device_seconds,
        false => row.self_cpu_seconds,
    }
}

#[cfg(test)]
mod tests {
    use crate::TensorReport;
    use crate::finding::Confidence;
    use crate::findings::samples::{close, found, healthy, missing, op, recorded, steps};

    const NAME: &str = "unfused-ops";

    /// Builds a report with 100 steps. Elementwise ops take `seconds` in total, and `blocks` fused
    /// blocks ran.
    fn elementwise(seconds: f64, blocks: u64) -> TensorReport {
        let half = 0.5 * seconds;
        let mut rows = vec![
            op("burn::add", 1000, half),
            op("burn::mul_scalar", 1000, half),
            op("burn::matmul", 100, 0.3),
            op("cubecl::launch", 2100, 0.1),
        ];
        if blocks > 0 {
            rows.push(op("burn::fused[add, relu]", blocks, 0.1));
        }
        recorded(rows)
    }

    #[test]
    fn ops_that_run_one_by_one_are_found() {
        let finding = found(NAME, elementwise(0.8, 0));
        close(finding.cost.seconds, 0.8, 0.001);
        assert_eq!(finding.confidence, Confidence::Hint);
        assert!(finding.remedy.contains("`fusion`"), "{finding:?}");
        let some = found(NAME, elementwise(0.8, 100));
        assert!(some.remedy.contains("ends a block"), "{some:?}");
        let mut on_a_device = elementwise(0.8, 100);
        on_a_device.key_averages.rows[0].self_device_seconds = 1.0;
        close(found(NAME, on_a_device).cost.seconds, 1.4, 0.001);
    }

    #[test]
    fn fused_ones_are_not_nor_few_nor_those_of_other_devices() {
        healthy(NAME, elementwise(0.1, 100));
        let mut few = elementwise(0.8, 0);
        few.key_averages.rows.iter_mut().for_each(|row| row.calls = 100);
        healthy(NAME, few);
        let flex = recorded(vec![op("burn::add", 2000, 1.0)]);
        assert!(missing(NAME, flex).contains("CubeCL"));
        assert!(missing(NAME, steps(100, 0.02)).contains("Tensor"));
    }
}
