//! Rule `vanishing-gradient`: gradients are almost zero.

use mlprof_events::TensorRole;

use super::troubles::OfNumbers;
use crate::findings::rule::{Rule, Threshold};
use crate::numerics::{TroubleKind, TroubleLimits};

pub(super) static RULE: Rule = Rule {
    name: "vanishing-gradient",
    condition: "a gradient is a tiny part of the others, or entirely 0",
    thresholds: &[
        Threshold {
            name: "part-of-others",
            default: TroubleLimits::DEFAULT.part_of_others,
            why: "maximum ratio to the usual gradient: layers differ by a factor of a hundred",
        },
        Threshold {
            name: "most",
            default: TroubleLimits::DEFAULT.least_gradient,
            why: "maximum root mean square of the gradient: larger ones still change parameters",
        },
    ],
    is_of_time: false,
    examine: |facts, limits| NUMBERS.examine(facts, limits),
};

static NUMBERS: OfNumbers = OfNumbers {
    name: RULE.name,
    kinds: &[TroubleKind::VanishingGradient],
    looks_at: |row| row.role == TensorRole::Gradient,
    rows: "gradients",
    remedy: "look at the layers behind this one: saturating activations (use `relu` or `gelu`), a \
             `detach`, or too many layers without a normalization or a residual connection.",
    limits: |limits| TroubleLimits {
        part_of_others: limits[0],
        least_gradient: limits[1],
        ..TroubleLimits::DEFAULT
    },
};

#[cfg(test)]
mod tests {
    use mlprof_events::TensorRole;

    use crate::finding::Evidence;
    use crate::findings::samples::{found, healthy, missing, numbers, steps};
    use crate::numerics::tests::row;

    #[test]
    fn one_that_is_0_is_found_and_a_small_one_is_not() {
        let usual = row(TensorRole::Gradient, "a.weight", &[&[1e-2; 4], &[2e-2; 4]]);
        let gone = row(TensorRole::Gradient, "b.weight", &[&[0.0; 4], &[0.0; 4]]);
        let finding = found("vanishing-gradient", numbers(vec![usual.clone(), gone]));
        assert_eq!(finding.place.module.as_deref(), Some("b"));
        assert!(!finding.sentence.contains("similar"), "{finding:?}");
        let small = row(TensorRole::Gradient, "b.weight", &[&[1e-4; 4], &[1e-4; 4]]);
        healthy("vanishing-gradient", numbers(vec![usual.clone(), small]));
        // A gradient that is not finite has not vanished. Another rule reports it.
        let spoilt = row(TensorRole::Gradient, "b.weight", &[&[1e-2; 4], &[f32::NAN; 4]]);
        healthy("vanishing-gradient", numbers(vec![usual, spoilt]));
        // Several layers behind one dead layer give a single finding.
        let usual =
            ["u", "v", "w"].map(|name| row(TensorRole::Gradient, name, &[&[1e-2; 4], &[2e-2; 4]]));
        let gone = ["b.weight", "b.bias"]
            .map(|name| row(TensorRole::Gradient, name, &[&[0.0; 4], &[0.0; 4]]));
        let finding = found("vanishing-gradient", numbers([usual.as_slice(), &gone].concat()));
        assert!(
            finding.sentence.ends_with(", and one more is similar: it hardly learns."),
            "{finding:?}"
        );
        assert_eq!(finding.evidence.last(), Some(&Evidence::new("similar", "b.bias")));
        assert!(missing("vanishing-gradient", steps(100, 0.02)).contains("numerics"));
    }
}
