//! Troubles: conditions that can lead to NaN or prevent a network from learning.

use mlprof_events::TensorRole;
use serde::Serialize;

use super::{TensorRow, TensorStatistics};
use crate::finding::Evidence;
use crate::label;
use crate::number::grouped;
use mlprof_events::OrderExt;

/// Kind of a trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TroubleKind {
    /// A gradient has grown by a factor of 100 over the recorded steps, and is large.
    ExplodingGradient,
    /// A gradient is below a ten-thousandth of the usual gradient, or the last one is all zeros.
    VanishingGradient,
    /// Nearly all values that a module returns are 0, or all are equal.
    DeadActivation,
    /// A step changes more than a tenth of a parameter, by norm.
    LargeUpdate,
    /// Steps change less than a millionth of a parameter, by norm.
    SmallUpdate,
    /// 16-bit numbers are so small that they lose digits, or are close to the largest value.
    LostPrecision,
}

/// A trouble at one place.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Trouble {
    /// Kind of the trouble.
    pub kind: TroubleKind,
    /// Name of the module or parameter.
    pub name: String,
    /// Description with its numbers, and the recommended action.
    pub sentence: String,
}

/// Limits beyond which a value is reported as a trouble.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TroubleLimits {
    /// Minimum growth factor of an exploding gradient since the first step.
    pub(crate) growth: f64,
    /// Minimum norm of an exploding gradient.
    pub(crate) gradient_norm: f64,
    /// Ratio to the usual gradient below which a gradient counts as vanishing.
    pub(crate) part_of_others: f64,
    /// Root mean square below which a gradient counts as vanishing. Both limits must hold.
    pub(crate) least_gradient: f64,
    /// Minimum share of zeros in a dead activation.
    pub(crate) zeros: f64,
    /// Maximum change of a matrix per step, as a share of its norm.
    pub(crate) largest_update: f64,
    /// Minimum change of a matrix per step, as a share of its norm.
    pub(crate) smallest_update: f64,
    /// Maximum share of subnormal values among 16-bit numbers.
    pub(crate) subnormals: f64,
    /// Maximum magnitude of `f16` values, as a share of the largest `f16`.
    pub(crate) part_of_largest: f64,
}

impl TroubleLimits {
    /// Default limits.
    pub(crate) const DEFAULT: Self = Self {
        growth: 100.0,
        gradient_norm: 100.0,
        part_of_others: 1e-4,
        least_gradient: 1e-7,
        zeros: 0.99,
        largest_update: 0.1,
        smallest_update: 1e-6,
        subnormals: 0.01,
        part_of_largest: 0.5,
    };
}

/// Largest finite `f16` value.
const LARGEST_F16: f64 = 65_504.0;

/// A trouble with its evidence.
pub(crate) struct FoundTrouble<'rows> {
    pub(crate) kind: TroubleKind,
    pub(crate) row: &'rows TensorRow,
    /// Description without a full stop.
    pub(crate) what: String,
    /// Consequence or recommended action.
    pub(crate) advice: &'static str,
    pub(crate) evidence: Vec<Evidence>,
}

/// Returns all troubles in these rows, ordered by kind. Rows with a single tensor are ignored,
/// because initial values are not a trouble.
pub fn troubles(rows: &[TensorRow]) -> Vec<Trouble> {
    let of = |found: FoundTrouble<'_>| Trouble {
        kind: found.kind,
        name: found.row.name.clone(),
        sentence: format!("{}: {}", found.what, found.advice),
    };
    troubles_by(rows, &TroubleLimits::DEFAULT).into_iter().map(of).collect()
}

/// Returns the troubles for other limits, with their evidence.
pub(crate) fn troubles_by<'rows>(
    rows: &'rows [TensorRow],
    limits: &TroubleLimits,
) -> Vec<FoundTrouble<'rows>> {
    let mut found = Vec::new();
    let usual = usual_gradient(rows);
    for row in rows.iter().filter(|row| has_enough(row)) {
        match row.role {
            TensorRole::Gradient => found.extend(of_gradient(row, usual, limits)),
            TensorRole::Output => found.extend(of_output(row, limits)),
            TensorRole::Update => found.extend(of_update(row, rows, limits)),
            _ => {}
        }
        // An update is a difference and is not stored with 16 bits.
        if row.role != TensorRole::Update {
            found.extend(of_precision(row, limits));
        }
    }
    found.order_by_key(|trouble| trouble.kind);
    found
}

/// Returns `true` if a row has finite numbers of more than one step.
pub(crate) fn has_enough(row: &TensorRow) -> bool {
    row.tensors > 1 && row.all.finite() > 0
}

/// Returns the median root mean square of the last gradients.
fn usual_gradient(rows: &[TensorRow]) -> f64 {
    let gradients = rows.iter().filter(|row| row.role == TensorRole::Gradient);
    let mut sizes: Vec<f64> = gradients.map(|row| row.last.root_mean_square()).collect();
    sizes.order_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

fn of_gradient<'rows>(
    row: &'rows TensorRow,
    usual: f64,
    limits: &TroubleLimits,
) -> Option<FoundTrouble<'rows>> {
    // If a gradient is not finite, its norm covers only the remaining finite values, possibly none.
    if !row.last.is_finite() {
        return None;
    }
    let (first, last) = (row.first.root_mean_square(), row.last.root_mean_square());
    let evidence = vec![
        Evidence::new("root mean square of the first gradient", format!("{first:.1e}")),
        Evidence::new("root mean square of the last gradient", format!("{last:.1e}")),
        Evidence::new("root mean square of the usual gradient", format!("{usual:.1e}")),
        Evidence::new("gradients", grouped(row.tensors)),
    ];
    let name = label::shown(&row.name);
    if last > limits.growth * first && row.last.l2_norm > limits.gradient_norm {
        return Some(FoundTrouble {
            kind: TroubleKind::ExplodingGradient,
            row,
            what: format!(
                "the gradient of {name} grew from {first:.1e} to {last:.1e} (root mean square)"
            ),
            advice: "lower the learning rate, or clip gradients",
            evidence,
        });
    }
    let is_small =
        row.all.root_mean_square() < limits.part_of_others * usual && last < limits.least_gradient;
    if row.last.l2_norm == 0.0 || is_small {
        return Some(FoundTrouble {
            kind: TroubleKind::VanishingGradient,
            row,
            what: format!(
                "the gradient of {name} is {last:.1e} (root mean square), while the usual gradient \
                 is {usual:.1e}"
            ),
            advice: "it hardly learns",
            evidence,
        });
    }
    None
}

fn of_output<'rows>(row: &'rows TensorRow, limits: &TroubleLimits) -> Option<FoundTrouble<'rows>> {
    let numbers = &row.all;
    // A small output can be constant without being dead.
    if row.last.count < 16 {
        return None;
    }
    let zeros = numbers.zeros as f64 / numbers.count as f64;
    let is_constant = numbers.minimum == numbers.maximum;
    if zeros < limits.zeros && !is_constant {
        return None;
    }
    let name = label::shown(&row.name);
    let what = match zeros >= limits.zeros {
        true => format!("{:.1} % of the output of {name} is 0", zeros * 100.0),
        false => format!("all numbers in the output of {name} are the same"),
    };
    Some(FoundTrouble {
        kind: TroubleKind::DeadActivation,
        row,
        what,
        advice: "no gradient passes through it",
        evidence: vec![
            Evidence::new("numbers", grouped(numbers.count)),
            Evidence::new("zeros", grouped(numbers.zeros)),
        ],
    })
}

fn of_update<'rows>(
    row: &'rows TensorRow,
    rows: &[TensorRow],
    limits: &TroubleLimits,
) -> Option<FoundTrouble<'rows>> {
    // Biases often begin at 0, so their relative change has no meaning.
    if row.shape.len() < 2 {
        return None;
    }
    let is_it = |one: &&TensorRow| one.role == TensorRole::Parameter && one.name == row.name;
    let parameter = rows.iter().find(is_it)?;
    let ratio = |update: &TensorStatistics, parameter: &TensorStatistics| match parameter.l2_norm {
        0.0 => None, // relative to 0, no change has a meaningful size
        norm => Some(update.l2_norm / norm),
    };
    let (first, last) = (ratio(&row.first, &parameter.first), ratio(&row.last, &parameter.last)?);
    let (largest, smallest) = (limits.largest_update, limits.smallest_update);
    let (kind, which, ratio, advice) = match (first, last) {
        (Some(first), last) if first > largest && first > last => {
            (TroubleKind::LargeUpdate, "first", first, "the learning rate is too high")
        }
        (_, last) if last > largest => {
            (TroubleKind::LargeUpdate, "last", last, "the learning rate is too high")
        }
        (_, last) if last < smallest && row.last.is_finite() => {
            (TroubleKind::SmallUpdate, "last", last, "it hardly learns")
        }
        _ => return None,
    };
    let name = label::shown(&row.name);
    let norm = |what: &str, norm: f64| Evidence::new(what, format!("{norm:.1e}"));
    Some(FoundTrouble {
        kind,
        row,
        what: format!("the {which} recorded step changed {name} by {ratio:.1e} of its norm"),
        advice,
        evidence: vec![
            norm("norm of the first update", row.first.l2_norm),
            norm("norm of the last update", row.last.l2_norm),
            norm("norm of the parameter at the end", parameter.last.l2_norm),
        ],
    })
}

fn of_precision<'rows>(
    row: &'rows TensorRow,
    limits: &TroubleLimits,
) -> Option<FoundTrouble<'rows>> {
    let numbers = &row.all;
    let largest = numbers.maximum.unwrap_or(0.0).abs().max(numbers.minimum.unwrap_or(0.0).abs());
    let small = numbers.subnormals as f64 / numbers.count as f64;
    let is_16_bit = matches!(&*row.element_type, "f16" | "bf16");
    let (what, advice) = match &*row.element_type {
        _ if is_16_bit && small > limits.subnormals => {
            let advice = match row.role {
                TensorRole::Gradient => "scale the loss",
                _ => "scale the numbers, or compute this layer in 32 bits",
            };
            (
                format!("{:.1} % of the numbers are so small that they lose digits", small * 100.0),
                advice,
            )
        }
        "f16" if largest > limits.part_of_largest * LARGEST_F16 => (
            format!("the largest number is {largest:.0}, close to the maximum of 65,504"),
            "use bf16, or scale the numbers",
        ),
        _ => return None,
    };
    let name = label::shown(&row.name);
    Some(FoundTrouble {
        kind: TroubleKind::LostPrecision,
        row,
        what: format!("in the 16-bit tensor {name} ({}) {what}", row.role),
        advice,
        evidence: vec![
            Evidence::new("numbers", grouped(numbers.count)),
            Evidence::new("subnormal", grouped(numbers.subnormals)),
            Evidence::new("largest", format!("{largest:.1e}")),
        ],
    })
}
