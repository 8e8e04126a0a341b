//! What costs time that could be saved: what rules found in a report.

use std::fmt::{self, Display, Formatter};

use crate::value::report_value;
use serde::Serialize;

report_value! {
/// Something that costs time, with its evidence, its place, the most that mending it can save, and
/// what to do. Made by [`Rules`](crate::findings::Rules).
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Finding from FindingParts {
    /// The name of the rule that found it, such as `data-waiting`.
    pub rule: String,
    /// What it is, in one sentence.
    pub sentence: String,
    /// The numbers that it was found by.
    pub evidence: Vec<Evidence>,
    /// Where it is.
    pub place: Place,
    /// What it costs at most.
    pub cost: Cost,
    /// How sure that is.
    pub confidence: Confidence,
    /// What to do, in the words of the program's framework.
    pub remedy: String,
}
}

impl Finding {
    /// Whether it is more than a hint.
    #[doc(hidden)]
    pub fn is_advice(&self) -> bool {
        self.confidence > Confidence::Hint
    }
}

/// A number that a rule looked at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Evidence {
    /// What it is of.
    pub what: String,
    /// The number with its unit.
    pub value: String,
}

impl Evidence {
    /// `what` is `value`.
    #[doc(hidden)]
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into() }
    }
}

/// Where a finding is: what is known of it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Place {
    /// The action, by the name that its row has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// The path of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// The place in the source, as `file:line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// The op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// The kernel, or the copy on a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// The thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

impl Place {
    /// In an action.
    #[doc(hidden)]
    pub fn action(name: impl Into<String>) -> Self {
        Self { action: Some(name.into()), ..Self::default() }
    }

    /// In an op.
    #[doc(hidden)]
    pub fn op(name: impl Into<String>) -> Self {
        Self { op: Some(name.into()), ..Self::default() }
    }

    /// In a kernel, or a copy on a device.
    #[doc(hidden)]
    pub fn kernel(name: impl Into<String>) -> Self {
        Self { kernel: Some(name.into()), ..Self::default() }
    }

    /// What is known, each with what it is.
    #[doc(hidden)]
    pub fn parts(&self) -> impl Iterator<Item = (&'static str, &str)> {
        let parts = [
            ("action", &self.action),
            ("module", &self.module),
            ("source", &self.source),
            ("op", &self.op),
            ("kernel", &self.kernel),
            ("thread", &self.thread),
        ];
        parts.into_iter().filter_map(|(what, name)| Some((what, name.as_deref()?)))
    }
}

report_value! {
/// The most that mending something can save, of what the report covers: the whole stage, or the
/// recorded steps of the Tensor profiler. Where that is not bounded by what was measured, about so much.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Cost from CostParts {
    /// Of each training step, in seconds; `None` where the report knows of no steps.
    pub seconds_per_step: Option<f64>,
    /// Of all that the report covers, in seconds.
    pub seconds: f64,
    /// The part that this is of the time that the report covers, 0 to 1.
    pub share: f64,
    /// Memory that it takes at the end, in bytes, where it costs memory and not time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Whether it is an estimate, and not a bound: it rests on what the like has saved in other programs, such as a
    /// part of what was measured.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_estimated: bool,
    /// Whether it costs no time, but what the training learns: what is wrong with its numbers.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_of_learning: bool,
}
}

fn is_false(value: &bool) -> bool {
    !value
}

/// How sure a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// It may well be as it should be: worth a look. Not shown on the console.
    Hint,
    /// Mending it saves time, unless the program has reasons that no report knows of.
    Likely,
    /// The numbers leave no other explanation.
    Certain,
}

impl Confidence {
    /// The word that JSON has.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Hint => "hint",
            Self::Likely => "likely",
            Self::Certain => "certain",
        }
    }
}

impl Display for Confidence {
    fn fmt(&self, text: &mut Formatter<'_>) -> fmt::Result {
        text.write_str(self.as_str())
    }
}
