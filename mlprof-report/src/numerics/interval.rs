//! Part of a step in which numbers stopped being finite.

use serde::Serialize;

use crate::label;

/// Maximum number of names on each side in the sentence about an unknown order.
const NAMES_SHOWN: usize = 4;

/// Part of a step, in execution order, in which a tensor stopped being finite. Its precision
/// depends on the hooks.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case", tag = "pass")]
#[non_exhaustive]
pub enum FaultInterval {
    /// Interval in the forward pass.
    Forward {
        /// Last module with a finite output before the fault.
        after: IntervalEnd,
        /// Module with the first output that is not finite, or `loss` if it is the loss.
        until: IntervalEnd,
    },
    /// Interval in the backward pass.
    Backward {
        /// Last module in backward order with only finite gradients before the fault. `None` if it
        /// is the loss, which was finite.
        after: Option<IntervalEnd>,
        /// Module with the first gradient that is not finite, or its parameter if the module is
        /// unknown.
        until: IntervalEnd,
    },
    /// Interval in the backward pass of modules without a known order.
    Unordered {
        /// Parameters with finite gradients.
        finite: Vec<String>,
        /// Parameters with gradients that are not finite.
        not_finite: Vec<String>,
    },
    /// Interval in the optimizer's step. The gradient of the parameter was finite.
    Update,
}

/// Module at one end of a [`FaultInterval`].
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct IntervalEnd {
    /// Name of the module, such as `[module]Linear: head`.
    pub name: String,
    /// Source line that created the module, as `file:line`, if the hook knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl IntervalEnd {
    fn shown(&self, facts: &[&str]) -> String {
        let made = self.source.as_ref().map(|at| format!("created at {}", label::one_line(at)));
        let facts: Vec<&str> = facts.iter().copied().chain(made.as_deref()).collect();
        match &facts[..] {
            [] => label::shown(&self.name),
            facts => format!("{} ({})", label::shown(&self.name), facts.join("; ")),
        }
    }
}

impl FaultInterval {
    /// Returns a sentence that describes the interval, without a full stop.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Forward { after, until } => format!(
                "The fault began between {} and {}",
                after.shown(&["its output was finite"]),
                match &*until.name {
                    "loss" => "the loss".to_owned(),
                    _ => until.shown(&[]),
                }
            ),
            Self::Backward { after: Some(after), until } => format!(
                "The fault began in the backward pass of {}, or between {} and it",
                until.shown(&[]),
                after.shown(&["its gradients are finite"]),
            ),
            Self::Backward { after: None, until } => format!(
                "The fault began in the backward pass, between the loss, which was finite, and {}",
                until.shown(&[]),
            ),
            Self::Unordered { finite, not_finite } => {
                let rest = match &finite[..] {
                    [] => "and no other gradient is finite".to_owned(),
                    finite => format!("those of {} are finite", names(finite)),
                };
                format!(
                    "The origin of the fault is unknown: the gradients of {} are not finite, \
                     {rest}. Wrap layers with .profile_layer(…) to record their order",
                    names(not_finite)
                )
            }
            Self::Update => {
                "The fault began in the optimizer's step: the gradient was finite".to_owned()
            }
        }
    }
}

/// Lists the first names and counts the others.
fn names(all: &[String]) -> String {
    let (shown, rest) = all.split_at(all.len().min(NAMES_SHOWN));
    let mut names: Vec<String> = shown.iter().map(|name| label::shown(name)).collect();
    if !rest.is_empty() {
        names.push(format!("{} more", rest.len()));
    }
    match names.split_last() {
        Some((last, [])) => last.clone(),
        Some((last, first)) => format!("{} and {last}", first.join(", ")),
        None => String::new(),
    }
}
