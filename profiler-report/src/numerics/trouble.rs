//! What comes before a NaN, or keeps a network from learning.

use profiler_events::TensorRole;
use serde::{Deserialize, Serialize};

use super::{TensorRow, TensorStatistics};
use crate::label;

/// What is wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TroubleKind {
    /// A gradient has grown a hundredfold over the recorded steps, and is large.
    ExplodingGradient,
    /// A gradient is a ten-thousandth of the others', or all of the last one is 0.
    VanishingGradient,
    /// Of what a module returns nearly all is 0, or all is the same.
    DeadActivation,
    /// A step changes a parameter by more than a tenth of it.
    LargeUpdate,
    /// Steps change a parameter by less than a millionth of it.
    SmallUpdate,
    /// Numbers of 16 bits are so small that they lose digits, or nearly as large as can be.
    LostPrecision,
}

/// Something that is wrong at one place.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Trouble {
    /// What it is.
    pub kind: TroubleKind,
    /// The module or parameter.
    pub name: String,
    /// What is wrong, with its numbers, and what to do.
    pub sentence: String,
}

/// All troubles in these rows, by their kinds. Of a single tensor nothing is said: what training begins with is no trouble.
pub fn troubles(rows: &[TensorRow]) -> Vec<Trouble> {
    let mut found = Vec::new();
    let usual = usual_gradient(rows);
    for row in rows.iter().filter(|row| row.tensors > 1 && row.all.finite() > 0) {
        match row.role {
            TensorRole::Gradient => found.extend(of_gradient(row, usual)),
            TensorRole::Output => found.extend(of_output(row)),
            TensorRole::Update => found.extend(of_update(row, rows)),
            _ => {}
        }
        found.extend(of_precision(row));
    }
    found.sort_by_key(|trouble| trouble.kind);
    found
}

fn trouble(kind: TroubleKind, row: &TensorRow, sentence: String) -> Trouble {
    Trouble { kind, name: row.name.clone(), sentence }
}

/// The median of what gradients are like.
fn usual_gradient(rows: &[TensorRow]) -> f64 {
    let gradients = rows.iter().filter(|row| row.role == TensorRole::Gradient);
    let mut sizes: Vec<f64> = gradients.map(|row| row.last.root_mean_square()).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.get(sizes.len() / 2).copied().unwrap_or(0.0)
}

fn of_gradient(row: &TensorRow, usual: f64) -> Option<Trouble> {
    let (first, last) = (row.first.root_mean_square(), row.last.root_mean_square());
    if last > 100.0 * first && row.last.l2_norm > 100.0 {
        let sentence = format!(
            "the gradient of {} has grown from {first:.1e} to {last:.1e} (root mean square): lower the learning rate, or clip \
             gradients",
            label::shown(&row.name)
        );
        return Some(trouble(TroubleKind::ExplodingGradient, row, sentence));
    }
    if row.last.l2_norm == 0.0 || row.all.root_mean_square() < 1e-4 * usual && last < 1e-7 {
        let sentence = format!(
            "the gradient of {} is {last:.1e} (root mean square), where that of others is {usual:.1e}: it hardly learns",
            label::shown(&row.name)
        );
        return Some(trouble(TroubleKind::VanishingGradient, row, sentence));
    }
    None
}

fn of_output(row: &TensorRow) -> Option<Trouble> {
    let numbers = &row.all;
    // A few numbers may well be all the same.
    if row.last.count < 16 {
        return None;
    }
    let zeros = numbers.zeros as f64 / numbers.count as f64;
    let is_constant = numbers.minimum == numbers.maximum;
    if zeros < 0.99 && !is_constant {
        return None;
    }
    let what = match zeros >= 0.99 {
        true => format!("{:.1} % of what {} returns is 0", zeros * 100.0, label::shown(&row.name)),
        false => format!("all that {} returns is the same number", label::shown(&row.name)),
    };
    let sentence = format!("{what}: no gradient comes through it");
    Some(trouble(TroubleKind::DeadActivation, row, sentence))
}

/// What a step may change of a parameter, as a part of it.
const LARGEST_UPDATE: f64 = 0.1;
const SMALLEST_UPDATE: f64 = 1e-6;

fn of_update(row: &TensorRow, rows: &[TensorRow]) -> Option<Trouble> {
    // Biases begin with 0, of which any step is a multiple.
    if row.shape.len() < 2 {
        return None;
    }
    let is_it = |one: &&TensorRow| one.role == TensorRole::Parameter && one.name == row.name;
    let parameter = rows.iter().find(is_it)?;
    let ratio = |update: &TensorStatistics, parameter: &TensorStatistics| match parameter.l2_norm {
        0.0 => None, // begins with 0, of which any step is a multiple
        norm => Some(update.l2_norm / norm),
    };
    let (first, last) = (ratio(&row.first, &parameter.first), ratio(&row.last, &parameter.last)?);
    let (kind, which, ratio, what) = match (first, last) {
        (Some(first), last) if first > LARGEST_UPDATE && first > last => {
            (TroubleKind::LargeUpdate, "first", first, "the learning rate is too high")
        }
        (_, last) if last > LARGEST_UPDATE => {
            (TroubleKind::LargeUpdate, "last", last, "the learning rate is too high")
        }
        (_, last) if last < SMALLEST_UPDATE => {
            (TroubleKind::SmallUpdate, "last", last, "it hardly learns")
        }
        _ => return None,
    };
    let sentence = format!(
        "the {which} recorded step changed {} by {ratio:.1e} of it: {what}",
        label::shown(&row.name)
    );
    Some(trouble(kind, row, sentence))
}

fn of_precision(row: &TensorRow) -> Option<Trouble> {
    let numbers = &row.all;
    let largest = numbers.maximum.unwrap_or(0.0).abs().max(numbers.minimum.unwrap_or(0.0).abs());
    let small = numbers.subnormals as f64 / numbers.count as f64;
    let is_16_bit = matches!(&*row.element_type, "f16" | "bf16");
    let what = match &*row.element_type {
        _ if is_16_bit && small > 0.01 => {
            format!("{:.1} % are so small that they lose digits: scale the loss", small * 100.0)
        }
        "f16" if largest > 32_752.0 => {
            format!(
                "the largest is {largest:.0}, and 65,504 is the largest that there is: use bf16, or scale"
            )
        }
        _ => return None,
    };
    let sentence =
        format!("of the 16-bit numbers of {} ({}) {what}", label::shown(&row.name), row.role);
    Some(trouble(TroubleKind::LostPrecision, row, sentence))
}
