//! Rule `exploding-gradient`: gradients grow without bound.

use mlprof_events::TensorRole;

use super::troubles::OfNumbers;
use crate::findings::rule::{Rule, Threshold};
use crate::numerics::{TroubleKind, TroubleLimits};

pub(super) static RULE: Rule = Rule {
    name: "exploding-gradient",
    condition: "a gradient grows by a large factor over the recorded steps, and is large",
    thresholds: &[
        Threshold {
            name: "growth",
            default: TroubleLimits::DEFAULT.growth,
            why: "minimum ratio of its root mean square to that of the first recorded step: \
                  gradients vary by a factor of ten",
        },
        Threshold {
            name: "least-norm",
            default: TroubleLimits::DEFAULT.gradient_norm,
            why: "minimum norm of the gradient: a gradient that was nearly 0 at first can grow by \
                  any factor",
        },
    ],
    is_of_time: false,
    examine: |facts, limits| NUMBERS.examine(facts, limits),
};

static NUMBERS: OfNumbers = OfNumbers {
    name: RULE.name,
    kinds: &[TroubleKind::ExplodingGradient],
    looks_at: |row| row.role == TensorRole::Gradient,
    rows: "gradients",
    remedy: "lower the learning rate, warm it up, or clip gradients (`gradient_clip_val` of the \
             trainer).",
    limits: |limits| TroubleLimits {
        growth: limits[0],
        gradient_norm: limits[1],
        ..TroubleLimits::DEFAULT
    },
};

#[cfg(test)]
mod tests {
    use mlprof_events::TensorRole;

    use crate::findings::samples::{found, healthy, missing, numbers, steps};
    use crate::numerics::tests::row;

    #[test]
    fn one_that_has_grown_is_found_and_one_that_varies_is_not() {
        let grown = row(TensorRole::Gradient, "hidden.weight", &[&[1.0; 4], &[1e3; 4]]);
        let finding = found("exploding-gradient", numbers(vec![grown]));
        assert_eq!(finding.place.module.as_deref(), Some("hidden"));
        assert!(finding.sentence.contains("grew from 1.0e0 to 1.0e3"), "{finding:?}");
        let varies = row(TensorRole::Gradient, "hidden.weight", &[&[1.0; 4], &[20.0; 4]]);
        healthy("exploding-gradient", numbers(vec![varies]));
        let once = row(TensorRole::Gradient, "hidden.weight", &[&[1.0; 4]]);
        assert!(missing("exploding-gradient", numbers(vec![once])).contains("more than one"));
        assert!(missing("exploding-gradient", steps(100, 0.02)).contains("numerics"));
    }
}
