//! Rule `dead-activation`: layers that return only zeros.

use mlprof_events::TensorRole;

use super::troubles::OfNumbers;
use crate::findings::rule::{Rule, Threshold};
use crate::numerics::{TroubleKind, TroubleLimits};

pub(super) static RULE: Rule = Rule {
    name: "dead-activation",
    condition: "nearly all outputs of a module are 0, or all of them are the same number",
    thresholds: &[Threshold {
        name: "share",
        default: TroubleLimits::DEFAULT.zeros,
        why: "minimum share of zeros in the output: about half of the outputs of `relu` are \
              usually 0",
    }],
    is_of_time: false,
    examine: |facts, limits| NUMBERS.examine(facts, limits),
};

static NUMBERS: OfNumbers = OfNumbers {
    name: RULE.name,
    kinds: &[TroubleKind::DeadActivation],
    looks_at: |row| row.role == TensorRole::Output,
    rows: "outputs",
    remedy: "restart with a lower learning rate, with `leaky_relu` or `gelu` instead of `relu`, or \
             with another initialization.",
    limits: |limits| TroubleLimits { zeros: limits[0], ..TroubleLimits::DEFAULT },
};

#[cfg(test)]
mod tests {
    use mlprof_events::TensorRole;

    use crate::findings::samples::{found, healthy, missing, numbers, steps};
    use crate::numerics::tests::row;

    #[test]
    fn one_that_is_0_is_found_and_half_of_one_is_not() {
        let dead = row(TensorRole::Output, "[module]Linear: b", &[&[0.0; 32], &[0.0; 32]]);
        let finding = found("dead-activation", numbers(vec![dead]));
        assert_eq!(finding.place.action.as_deref(), Some("[module]Linear: b"));
        let half: Vec<f32> = (0..32).map(|number| (number % 2) as f32).collect();
        let half = row(TensorRole::Output, "[module]Linear: b", &[&half, &half]);
        healthy("dead-activation", numbers(vec![half]));
        assert!(missing("dead-activation", steps(100, 0.02)).contains("numerics"));
    }
}
