//! The record of a run's numbers: JSON, one value per line, written while the run goes on.
//!
//! The first line is a [`RecordHeader`], each other one a [`RecordedTensor`], in the order in which tensors were seen. A run that
//! is killed leaves all steps that had ended.

use mlprof_events::{Framework, Stage, TensorRole};
use serde::Serialize;
use serde_json::Result;

use super::{FaultInterval, TensorStatistics, shown_number};
use crate::machine::Machine;
use crate::value::report_value;
use crate::{Setting, label};

/// The version of the record's layout. Raised when a field changes its meaning or goes away; new
/// fields do not raise it.
///
/// | version | change |
/// |---|---|
/// | 1 | |
/// | 2 | `sample` has infinite numbers as text (`"inf"`, `"-inf"`), and `null` for NaN only; the `hash` of an update is of the update; `sketch` and `not_finite_hash` are new |
pub const RECORD_VERSION: u32 = 2;

/// What a record begins with.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RecordHeader {
    /// [`RECORD_VERSION`].
    pub numerics_version: u32,
    /// The stage, if a trainer said one.
    pub stage: Option<Stage>,
    /// The number of this process among all of the run.
    pub rank: u32,
    /// The file name of the program, where it is known.
    pub program: Option<String>,
    /// What it trains with, where hooks have said so.
    #[serde(default)]
    pub frameworks: Vec<Framework>,
    /// When the stage began (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// What random numbers were seeded with, where the trainer or the program has said so.
    #[serde(default)]
    pub seed: Option<u64>,
    /// The types of elements in the first recorded step, in the order in which they were seen.
    #[serde(default)]
    pub element_types: Vec<String>,
    /// What it ran on.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// What the profiler was told.
    #[serde(default)]
    pub settings: Vec<Setting>,
}

report_value! {
/// A tensor in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RecordedTensor from RecordedTensorParts {
    /// The number of the step, counted from 0 in its stage.
    pub step: u64,
    /// What it is for.
    pub role: TensorRole,
    /// The module that has returned it, the op in its module, or the parameter.
    pub name: String,
    /// Which one of this name and role it is in its step, counted from 0.
    pub call: u64,
    /// The thread that told of it.
    pub thread: String,
    /// Of one that is not finite: where in the source its module was made, as `file:line`, where that is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The type of its elements, such as `f32`.
    #[serde(rename = "type")]
    pub element_type: String,
    /// Its shape; empty for a single number.
    pub shape: Vec<u64>,
    /// What is said of its numbers.
    #[serde(flatten)]
    pub statistics: TensorStatistics,
    /// What is said of the numbers that it was computed from, where that is known: a module's input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<TensorStatistics>,
    /// Some of its numbers, evenly spread. NaN is `None`, in JSON `null`; infinite numbers are
    /// `"inf"` and `"-inf"` in JSON. In records of version 1 `null` is any number that is not
    /// finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "sample")]
    pub sample: Vec<Option<f64>>,
    /// A sketch of all its numbers, by which the distance of whole tensors is
    /// estimated. It is empty where the sample has all numbers, where no hash is recorded, and of
    /// a tensor on a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sketch: Vec<f64>,
    /// The part of the step in which it stopped being finite: of the first tensor that is not
    /// finite, where hooks know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Box<FaultInterval>>,
    /// The innermost line of the program that led to it, as `file:line`: of the first tensor that
    /// is not finite, where debug information has it. It is never a line of mlprof or of another
    /// package.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// XXH3 of all its numbers, of 64 bits in hexadecimal digits. Each number is hashed as an `f64`
    /// in little-endian order, in the order of its position, all NaN alike; so the hash depends
    /// neither on the machine and its threads nor on the framework and its types. Integers above
    /// 2⁵³ lose digits before. `None` where equality with another tensor cannot be proven: of a
    /// tensor on a device, unless it is a batch or the profiler was configured to copy it, and
    /// where hashing is switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// Of a tensor with NaN or infinite numbers: XXH3 of their positions and kinds, of 64 bits in
    /// hexadecimal digits. Each such number is hashed as its position (`u64`, little-endian) and a
    /// byte: 0 for NaN, 1 for +∞, 2 for -∞. `None` where `hash` is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_finite_hash: Option<String>,
    /// Whether it is of a second run of the step's batch, in search of what is not finite.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_rerun: bool,
}
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Numbers of a sample as JSON, which has no infinite numbers.
mod sample {
    #[cfg(feature = "read")]
    use serde::{Deserialize, Deserializer};
    use serde::{Serialize, Serializer};

    #[derive(Serialize)]
    #[cfg_attr(feature = "read", derive(serde::Deserialize))]
    #[serde(untagged)]
    enum Sampled {
        Finite(f64),
        Infinite(Infinite),
    }

    #[derive(Serialize)]
    #[cfg_attr(feature = "read", derive(serde::Deserialize))]
    enum Infinite {
        #[serde(rename = "inf")]
        Positive,
        #[serde(rename = "-inf")]
        Negative,
    }

    pub(super) fn serialize<S: Serializer>(
        sample: &[Option<f64>],
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(sample.iter().map(|number| match *number {
            Some(f64::INFINITY) => Some(Sampled::Infinite(Infinite::Positive)),
            Some(f64::NEG_INFINITY) => Some(Sampled::Infinite(Infinite::Negative)),
            number => number.filter(|number| !number.is_nan()).map(Sampled::Finite),
        }))
    }

    #[cfg(feature = "read")]
    pub(super) fn deserialize<'de, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Vec<Option<f64>>, D::Error> {
        let sample = Vec::<Option<Sampled>>::deserialize(deserializer)?;
        let number = |sampled: Sampled| match sampled {
            Sampled::Finite(number) => number,
            Sampled::Infinite(Infinite::Positive) => f64::INFINITY,
            Sampled::Infinite(Infinite::Negative) => f64::NEG_INFINITY,
        };
        Ok(sample.into_iter().map(|sampled| sampled.map(number)).collect())
    }
}

/// What stands between a module and an op in it.
const IN_MODULE: &str = " > ";

/// The name of an op's output where the op was called inside of a module: `[module]Linear: head > aten::addmm`.
pub fn op_in_module(op: &str, module: &str) -> String {
    format!("{module}{IN_MODULE}{op}")
}

/// The op, and the module that it is in, of such a name.
fn op_and_module(name: &str) -> (String, String) {
    match name.rsplit_once(IN_MODULE) {
        Some((module, op)) => (label::shown(op), format!(" in {}", label::shown(module))),
        None => (label::shown(name), String::new()),
    }
}

impl RecordHeader {
    /// As a line of a record, with its end.
    ///
    /// # Errors
    ///
    /// None that a header of ours can cause; the error is the serializer's.
    pub fn to_line(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// When it is not JSON, or lacks a field.
    #[cfg(feature = "read")]
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line)
    }
}

impl RecordedTensor {
    /// Whether it is not finite though what it was computed from is, as far as that is known; or has NaN, which that has not.
    #[doc(hidden)]
    pub fn makes_not_finite(&self) -> bool {
        !self.statistics.is_finite()
            && self.input.is_none_or(|input| {
                input.is_finite() || (self.statistics.nans > 0 && input.nans == 0)
            })
    }

    /// What is not finite in it, and whether it was so before, in a sentence; for one that has NaN or infinite numbers.
    #[doc(hidden)]
    pub fn what_is_not_finite(&self) -> String {
        let statistics = &self.statistics;
        let name = label::shown(&self.name);
        let place = match self.role {
            TensorRole::Batch => format!("the batch ({name})"),
            TensorRole::Loss => "the loss".to_owned(),
            TensorRole::Output => format!("what {name} returned"),
            TensorRole::OpOutput => {
                let (op, module) = op_and_module(&self.name);
                format!("what {op}{module} returned")
            }
            TensorRole::BackwardOpOutput => {
                let (op, module) = op_and_module(&self.name);
                format!(
                    "what {op} returned in the backward pass{}",
                    module.replacen(" in ", " of ", 1)
                )
            }
            TensorRole::Update => format!("the parameter {name} after the optimizer's step"),
            role => format!("the {role} of {name}"),
        };
        let counts = [(statistics.nans, "NaN"), (statistics.infinities, "infinite")];
        let counts = counts.iter().filter(|(count, _)| *count > 0);
        let counts: Vec<_> = counts.map(|(count, what)| format!("{count} {what}")).collect();
        let input = match &self.input {
            None => String::new(),
            // A device has only counted.
            Some(input) if input.is_finite() && input.minimum.is_none() => {
                ". Its input was finite".to_owned()
            }
            Some(input) if input.is_finite() => format!(
                ". Its input was finite, from {} to {}",
                shown_number(input.minimum),
                shown_number(input.maximum)
            ),
            Some(input) if input.nans == 0 && statistics.nans > 0 => {
                ". Its input was infinite in places, and NaN nowhere".to_owned()
            }
            // The interval says where.
            Some(_) if self.interval.is_some() => ". Its input was not finite before".to_owned(),
            Some(_) => ". Its input was not finite before: look at what computes that".to_owned(),
        };
        let interval = self.interval.as_ref().map(|interval| format!(". {}", interval.sentence()));
        let caller = match self.role {
            TensorRole::Gradient | TensorRole::Parameter | TensorRole::Update => {
                "The optimizer's step"
            }
            TensorRole::Loss => "The backward pass",
            _ => "It",
        };
        let location = self.location.as_ref();
        let location =
            location.map(|at| format!(". {caller} was called at {}", label::one_line(at)));
        format!(
            "in step {} {place} is not finite: {} of {} numbers{input}{}{}",
            self.step,
            counts.join(" and "),
            statistics.count,
            interval.unwrap_or_default(),
            location.unwrap_or_default(),
        )
    }

    /// As a line of a record, with its end.
    ///
    /// # Errors
    ///
    /// None that a tensor of ours can cause; the error is the serializer's.
    #[doc(hidden)]
    pub fn to_line(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Reads a line.
    ///
    /// # Errors
    ///
    /// When it is not JSON, or lacks a field.
    #[doc(hidden)]
    #[cfg(feature = "read")]
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line)
    }
}
