//! Record of a run's numbers as JSON lines, written while the program runs.
//!
//! The first line is a [`RecordHeader`]. Each other line is a [`RecordedTensor`], in the order in
//! which tensors were seen. If a run is killed, the record contains all steps that had ended.

use mlprof_events::{Framework, Stage, TensorRole};
use serde::Serialize;
use serde_json::Result;

use super::{FaultInterval, TensorStatistics, shown_number};
use crate::machine::Machine;
use crate::value::report_value;
use crate::{Setting, label};

/// Version of the record's layout. It is raised when a field is removed or changes its meaning. New
/// fields do not raise it.
///
/// | version | change |
/// |---|---|
/// | 1 | |
/// | 2 | `sample` has infinite numbers as text (`"inf"`, `"-inf"`), and `null` for NaN only; the `hash` of an update is of the update; `sketch` and `not_finite_hash` are new |
pub const RECORD_VERSION: u32 = 2;

/// First line of a record.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RecordHeader {
    /// Version of the layout, [`RECORD_VERSION`].
    pub numerics_version: u32,
    /// Stage, if a trainer set one.
    pub stage: Option<Stage>,
    /// Rank of this process, from 0.
    pub rank: u32,
    /// File name of the program, if known.
    pub program: Option<String>,
    /// Frameworks that the program trains with, if hooks reported them.
    #[serde(default)]
    pub frameworks: Vec<Framework>,
    /// Start of the stage (UTC, RFC 3339).
    pub started_at: mlprof_events::UtcTime,
    /// Seed of the random numbers, if the trainer or the program reported it.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Element types in the first recorded step, in order of first occurrence.
    #[serde(default)]
    pub element_types: Vec<String>,
    /// Machine that the program ran on.
    #[serde(default)]
    pub machine: Option<Machine>,
    /// Settings of the profiler.
    #[serde(default)]
    pub settings: Vec<Setting>,
}

report_value! {
/// A tensor in a step.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct RecordedTensor from RecordedTensorParts {
    /// Number of the step, from 0 in its stage.
    pub step: u64,
    /// Role of the tensor.
    pub role: TensorRole,
    /// The module that has returned it, the op in its module, or the parameter.
    pub name: String,
    /// Index among the tensors with this name and role in the step, from 0.
    pub call: u64,
    /// Thread that reported the tensor.
    pub thread: String,
    /// Source line that created the module, as `file:line`, if known. Recorded only for a tensor
    /// that is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Element type, such as `f32`.
    #[serde(rename = "type")]
    pub element_type: String,
    /// Shape of the tensor. Empty for a single number.
    pub shape: Vec<u64>,
    /// Statistics of the numbers.
    #[serde(flatten)]
    pub statistics: TensorStatistics,
    /// Statistics of the input from which the tensor was computed, if known. For a module, this is
    /// its input.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<TensorStatistics>,
    /// Evenly spaced sample of the numbers. NaN is `None`, and `null` in JSON. Infinite numbers are
    /// `"inf"` and `"-inf"` in JSON. In records of version 1, `null` is any number that is not
    /// finite.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "sample")]
    pub sample: Vec<Option<f64>>,
    /// A sketch of all its numbers, by which the distance of whole tensors is
    /// estimated. It is empty where the sample has all numbers, where no hash is recorded, and of
    /// a tensor on a device.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sketch: Vec<f64>,
    /// Part of the step in which the numbers stopped being finite, if hooks know it. Recorded only
    /// for the first tensor that is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<Box<FaultInterval>>,
    /// Innermost line of the program that led to the tensor, as `file:line`, if debug information
    /// contains it. It is never a line of mlprof or of another package. Recorded only for the first
    /// tensor that is not finite.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub location: Option<String>,
    /// XXH3 hash of all numbers, 64 bits in hexadecimal digits. Each number is hashed as a
    /// little-endian `f64` in the order of its position, and all NaN values are equal. The hash
    /// therefore does not depend on the machine, its threads, the framework or the element type.
    /// Integers above 2⁵³ lose digits before hashing.
    ///
    /// `None` if equality with another tensor cannot be proven. This applies to a tensor on a
    /// device, unless it is a batch or the profiler was configured to copy it. It also applies if
    /// hashing is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hash: Option<String>,
    /// XXH3 hash of the positions and kinds of NaN and infinite numbers, 64 bits in hexadecimal
    /// digits. Each such number is hashed as its position (little-endian `u64`) and one byte: 0 for
    /// NaN, 1 for +∞, 2 for -∞. `None` if the tensor is finite or if `hash` is `None`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_finite_hash: Option<String>,
    /// `true` if the tensor comes from a second run of the step's batch.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_rerun: bool,
}
}

fn is_false(value: &bool) -> bool {
    !value
}

/// JSON form of the sample's numbers. JSON has no infinite numbers.
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

/// Separator between the names of a module and an op in it.
const IN_MODULE: &str = " > ";

/// Returns the name of an op's output if the op was called inside a module: `[module]Linear: head >
/// aten::addmm`.
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
    /// Returns the header as a line of a record, including the line break.
    ///
    /// # Errors
    ///
    /// Returns the serializer's error. No header of mlprof can cause one.
    pub fn to_line(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Parses a line.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is invalid JSON or lacks a field.
    #[cfg(feature = "read")]
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line)
    }
}

impl RecordedTensor {
    /// Returns `true` if the tensor is not finite although its input is finite or unknown. Also
    /// returns `true` if the tensor has NaN and its input has none.
    #[doc(hidden)]
    pub fn makes_not_finite(&self) -> bool {
        !self.statistics.is_finite()
            && self.input.is_none_or(|input| {
                input.is_finite() || (self.statistics.nans > 0 && input.nans == 0)
            })
    }

    /// Describes the numbers that are not finite and the state of the input, as a sentence. The
    /// tensor must contain NaN or infinite numbers.
    #[doc(hidden)]
    pub fn what_is_not_finite(&self) -> String {
        let statistics = &self.statistics;
        let name = label::shown(&self.name);
        let place = match self.role {
            TensorRole::Batch => format!("the batch ({name})"),
            TensorRole::Loss => "the loss".to_owned(),
            TensorRole::Output => format!("the output of {name}"),
            TensorRole::OpOutput => {
                let (op, module) = op_and_module(&self.name);
                format!("the output of {op}{module}")
            }
            TensorRole::BackwardOpOutput => {
                let (op, module) = op_and_module(&self.name);
                format!(
                    "the output of {op} in the backward pass{}",
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
            // For a tensor on a device, only the counts are known.
            Some(input) if input.is_finite() && input.minimum.is_none() => {
                ". Its input was finite".to_owned()
            }
            Some(input) if input.is_finite() => format!(
                ". Its input was finite, from {} to {}",
                shown_number(input.minimum),
                shown_number(input.maximum)
            ),
            Some(input) if input.nans == 0 && statistics.nans > 0 => {
                ". Its input had infinite numbers but no NaN".to_owned()
            }
            // The interval already names the place.
            Some(_) if self.interval.is_some() => ". Its input was already not finite".to_owned(),
            Some(_) => {
                ". Its input was already not finite: look at the source of the input".to_owned()
            }
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

    /// Returns the tensor as a line of a record, including the line break.
    ///
    /// # Errors
    ///
    /// Returns the serializer's error. No tensor of mlprof can cause one.
    #[doc(hidden)]
    pub fn to_line(&self) -> Result<String> {
        Ok(serde_json::to_string(self)? + "\n")
    }

    /// Parses a line.
    ///
    /// # Errors
    ///
    /// Returns an error if the line is invalid JSON or lacks a field.
    #[doc(hidden)]
    #[cfg(feature = "read")]
    pub fn from_line(line: &str) -> Result<Self> {
        serde_json::from_str(line)
    }
}
