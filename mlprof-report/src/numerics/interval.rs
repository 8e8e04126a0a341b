//! The part of a step in which numbers stopped being finite.

use serde::Serialize;

use crate::label;

/// Names that the sentence about an unknown order lists for each side.
const NAMES_SHOWN: usize = 4;

/// The part of a step, in order of execution, in which a tensor stopped being finite, as far as
/// hooks know it.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
#[serde(rename_all = "snake_case", tag = "pass")]
#[non_exhaustive]
pub enum FaultInterval {
    /// In the forward pass.
    Forward {
        /// The last module before whose output was finite.
        after: IntervalEnd,
        /// The module whose output, or `loss` if the loss, was the first that was not finite.
        until: IntervalEnd,
    },
    /// In the backward pass.
    Backward {
        /// The last module before, in backward order, whose gradients were all finite. `None`: the
        /// loss, which was.
        after: Option<IntervalEnd>,
        /// The module that has the first gradient that is not finite, or its parameter where no
        /// module is known.
        until: IntervalEnd,
    },
    /// In the backward pass of modules whose order no hook reports.
    Unordered {
        /// The parameters whose gradients are finite.
        finite: Vec<String>,
        /// The parameters whose gradients are not.
        not_finite: Vec<String>,
    },
    /// In the optimizer's step: the gradient of the parameter was finite.
    Update,
}

/// A module at one end of a [`FaultInterval`].
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct IntervalEnd {
    /// The module's name, such as `[module]Linear: head`.
    pub name: String,
    /// The line of the program that made the module, as `file:line`, where the hook knows it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

impl IntervalEnd {
    fn shown(&self, facts: &[&str]) -> String {
        let made = self.source.as_ref().map(|at| format!("made at {}", label::one_line(at)));
        let facts: Vec<&str> = facts.iter().copied().chain(made.as_deref()).collect();
        match &facts[..] {
            [] => label::shown(&self.name),
            facts => format!("{} ({})", label::shown(&self.name), facts.join("; ")),
        }
    }
}

impl FaultInterval {
    /// Returns the sentence that names the interval, without a full stop.
    pub(super) fn sentence(&self) -> String {
        match self {
            Self::Forward { after, until } => format!(
                "It began between {} and {}",
                after.shown(&["its output was finite"]),
                match &*until.name {
                    "loss" => "the loss".to_owned(),
                    _ => until.shown(&[]),
                }
            ),
            Self::Backward { after: Some(after), until } => format!(
                "It began in the backward pass of {}, or between {} and it",
                until.shown(&[]),
                after.shown(&["its gradients are finite"]),
            ),
            Self::Backward { after: None, until } => format!(
                "It began in the backward pass, between the loss, which was finite, and {}",
                until.shown(&[]),
            ),
            Self::Unordered { finite, not_finite } => {
                let rest = match &finite[..] {
                    [] => "and those of no parameter are finite".to_owned(),
                    finite => format!("those of {} are finite", names(finite)),
                };
                format!(
                    "It is not known where it began: the gradients of {} are not finite, {rest}. Layers that are \
                     .profile_layer(…) give the order",
                    names(not_finite)
                )
            }
            Self::Update => "It began in the optimizer's step: the gradient was finite".to_owned(),
        }
    }
}

/// The first names, and the number of others.
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
