//! Findings: avoidable costs that the rules detected in a report.

use std::fmt::{self, Display, Formatter};

use crate::value::report_value;
use serde::Serialize;

report_value! {
/// An avoidable cost with its evidence, location, maximum saving and remedy.
/// [`Rules`](crate::findings::Rules) creates it.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Finding from FindingParts {
    /// Name of the rule that produced the finding, such as `data-waiting`.
    pub rule: String,
    /// Description in one sentence.
    pub sentence: String,
    /// Numbers that support the finding.
    pub evidence: Vec<Evidence>,
    /// Location of the finding.
    pub place: Place,
    /// Upper bound of the cost.
    pub cost: Cost,
    /// Confidence of the finding.
    pub confidence: Confidence,
    /// Recommended action, in the terms of the program's framework.
    pub remedy: String,
}
}

impl Finding {
    /// Returns `true` if the finding is more than a hint.
    #[doc(hidden)]
    pub fn is_advice(&self) -> bool {
        self.confidence > Confidence::Hint
    }
}

/// A number that supports a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Evidence {
    /// Name of the quantity.
    pub what: String,
    /// Value with its unit.
    pub value: String,
}

impl Evidence {
    /// Creates the evidence `what` with its `value`.
    #[doc(hidden)]
    pub fn new(what: impl Into<String>, value: impl Into<String>) -> Self {
        Self { what: what.into(), value: value.into() }
    }
}

/// Location of a finding. Fields that are unknown are `None`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[non_exhaustive]
pub struct Place {
    /// Action, named as in its row.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub action: Option<String>,
    /// Path of the module.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub module: Option<String>,
    /// Source location, as `file:line`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Name of the op.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub op: Option<String>,
    /// Name of the kernel or of the copy on a device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<String>,
    /// Name of the thread.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub thread: Option<String>,
}

impl Place {
    /// Creates a location in an action.
    #[doc(hidden)]
    pub fn action(name: impl Into<String>) -> Self {
        Self { action: Some(name.into()), ..Self::default() }
    }

    /// Creates a location in an op.
    #[doc(hidden)]
    pub fn op(name: impl Into<String>) -> Self {
        Self { op: Some(name.into()), ..Self::default() }
    }

    /// Creates a location in a kernel or a copy on a device.
    #[doc(hidden)]
    pub fn kernel(name: impl Into<String>) -> Self {
        Self { kernel: Some(name.into()), ..Self::default() }
    }

    /// Returns the known parts of the location as pairs of a kind and a name.
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
/// Largest possible saving over the range that the report covers. This is the whole stage, or the
/// recorded steps of the Tensor profiler. If the measurement gives no bound, it is an estimate.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct Cost from CostParts {
    /// Cost per training step, in seconds. `None` if the report contains no steps.
    pub seconds_per_step: Option<f64>,
    /// Cost over the whole range of the report, in seconds.
    pub seconds: f64,
    /// Cost as a share of the report's time, 0 to 1.
    pub share: f64,
    /// Memory at the end of the report, in bytes, if the finding costs memory instead of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// `true` if the cost is an estimate and not a bound. Estimates are based on savings in other
    /// programs, for example as a part of the measured time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_estimated: bool,
    /// `true` if the finding affects the quality of the training, such as invalid numbers, and
    /// costs no time.
    #[serde(default, skip_serializing_if = "is_false")]
    pub is_of_learning: bool,
}
}

fn is_false(value: &bool) -> bool {
    !value
}

/// Confidence of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case")]
pub enum Confidence {
    /// The behaviour may be intended, so a check is recommended. The console does not show hints.
    Hint,
    /// A fix saves time, unless the program has reasons that are not visible in the report.
    Likely,
    /// The numbers leave no other explanation.
    Certain,
}

impl Confidence {
    /// Returns the name used in JSON.
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
