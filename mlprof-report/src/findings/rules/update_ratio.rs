//! Rule `update-ratio`: a step changes a large part of the parameters, or almost no part of them.

use mlprof_events::TensorRole;

use super::troubles::OfNumbers;
use crate::findings::rule::{Rule, Threshold};
use crate::numerics::{TroubleKind, TroubleLimits};

pub(super) static RULE: Rule = Rule {
    name: "update-ratio",
    condition: "a step changes a matrix by a large part of its norm, or by almost nothing",
    thresholds: &[
        Threshold {
            name: "most",
            default: TroubleLimits::DEFAULT.largest_update,
            why: "maximum change in a step, as a part of the matrix's norm",
        },
        Threshold {
            name: "least",
            default: TroubleLimits::DEFAULT.smallest_update,
            why: "minimum change in a step, as a part of the matrix's norm",
        },
    ],
    is_of_time: false,
    examine: |facts, limits| NUMBERS.examine(facts, limits),
};

static NUMBERS: OfNumbers = OfNumbers {
    name: RULE.name,
    kinds: &[TroubleKind::LargeUpdate, TroubleKind::SmallUpdate],
    looks_at: |row| row.role == TensorRole::Update,
    rows: "updates",
    remedy: "set the learning rate so that a step changes parameters by about a thousandth.",
    limits: |limits| TroubleLimits {
        largest_update: limits[0],
        smallest_update: limits[1],
        ..TroubleLimits::DEFAULT
    },
};

#[cfg(test)]
mod tests {
    use mlprof_events::TensorRole;

    use crate::findings::samples::{found, healthy, missing, numbers, steps};
    use crate::numerics::tests::row;

    #[test]
    fn one_that_is_out_of_range_is_found_and_a_thousandth_is_not() {
        let parameter = row(TensorRole::Parameter, "a.weight", &[&[1.0; 4], &[1.0; 4]]);
        for update in [0.5, 1e-9] {
            let update = row(TensorRole::Update, "a.weight", &[&[update; 4], &[update; 4]]);
            let finding = found("update-ratio", numbers(vec![parameter.clone(), update]));
            assert_eq!(finding.place.module.as_deref(), Some("a"));
        }
        let update = row(TensorRole::Update, "a.weight", &[&[1e-3; 4], &[1e-3; 4]]);
        healthy("update-ratio", numbers(vec![parameter, update]));
        assert!(missing("update-ratio", steps(100, 0.02)).contains("numerics"));
    }
}
