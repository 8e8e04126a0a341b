//! Errors of this crate.

use candle_core::Shape;

/// An error of this crate.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An error of candle.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// The optimizer has no variables.
    #[error(
        "the optimizer was given no variables: build the model before its optimizer, and take the \
         variables from the VarMap that the model was built with"
    )]
    NoVariables,
    /// The loss is not a single number.
    #[error("the loss has the shape {shape:?} instead of one element: take its mean or its sum")]
    NotOneElement {
        /// Shape of the loss.
        shape: Shape,
    },
    /// The loss does not depend on the optimizer's variables.
    #[error(
        "backward reached none of the optimizer's {variables} variables: was the model built with \
         another VarMap, or is the loss computed from a detached tensor?"
    )]
    NotReached {
        /// Number of variables of the optimizer.
        variables: usize,
    },
}

mlprof_core::debug_as_display!(Error);
