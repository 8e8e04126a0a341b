//! Rule `lost-precision`: 16-bit numbers lose precision.

use super::troubles::OfNumbers;
use crate::findings::rule::{Rule, Threshold};
use crate::numerics::{TroubleKind, TroubleLimits};

pub(super) static RULE: Rule = Rule {
    name: "lost-precision",
    condition: "16-bit numbers are so small that they lose digits, or close to the largest `f16`",
    thresholds: &[
        Threshold {
            name: "subnormals",
            default: TroubleLimits::DEFAULT.subnormals,
            why: "minimum share of subnormal numbers",
        },
        Threshold {
            name: "part-of-largest",
            default: TroubleLimits::DEFAULT.part_of_largest,
            why: "minimum ratio of the largest `f16` in the tensor to 65,504",
        },
    ],
    is_of_time: false,
    examine: |facts, limits| NUMBERS.examine(facts, limits),
};

static NUMBERS: OfNumbers = OfNumbers {
    name: RULE.name,
    kinds: &[TroubleKind::LostPrecision],
    looks_at: |row| matches!(&*row.element_type, "f16" | "bf16"),
    rows: "tensors of 16 bits",
    remedy: "scale the loss (and unscale gradients before the step), use `bf16`, or compute this \
             layer in 32 bits.",
    limits: |limits| TroubleLimits {
        subnormals: limits[0],
        part_of_largest: limits[1],
        ..TroubleLimits::DEFAULT
    },
};

#[cfg(test)]
mod tests {
    use mlprof_events::TensorRole;

    use crate::findings::samples::{found, healthy, missing, numbers, steps};
    use crate::numerics::tests::row;

    #[test]
    fn numbers_near_the_limit_are_found_and_others_are_not() {
        let of = |numbers: &[f32]| {
            let mut row = row(TensorRole::Output, "narrow", &[numbers, numbers]);
            row.element_type = "f16".to_owned();
            row
        };
        let finding = found("lost-precision", numbers(vec![of(&[40_000.0, 1.0])]));
        assert!(finding.sentence.contains("65,504"), "{finding:?}");
        healthy("lost-precision", numbers(vec![of(&[4.0, 1.0])]));
        let wide = row(TensorRole::Output, "wide", &[&[40_000.0, 1.0], &[1.0, 2.0]]);
        assert!(missing("lost-precision", numbers(vec![wide])).contains("16 bits"));
        assert!(missing("lost-precision", steps(100, 0.02)).contains("numerics"));
    }
}
