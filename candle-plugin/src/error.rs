//! Errors of the connection between candle and the training loop.

use candle_core::Shape;

/// An error of this crate.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// candle returned an error.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// The optimizer has no variables, so there is nothing to train.
    #[error(
        "the optimizer was given no variables: build the model before its optimizer, and take the \
         variables from the VarMap that the model was built with"
    )]
    NoVariables,
    /// The loss has more or less than one element, but backward needs exactly one.
    #[error("the loss has the shape {shape:?} instead of one element: take its mean or its sum")]
    NotOneElement {
        /// Shape of the loss that the training step returned.
        shape: Shape,
    },
    /// The loss does not depend on any variable of the optimizer.
    #[error(
        "backward reached none of the optimizer's {variables} variables: was the model built with \
         another VarMap, or is the loss computed from a detached tensor?"
    )]
    NotReached {
        /// Number of the optimizer's variables.
        variables: usize,
    },
}

mlprof_core::debug_as_display!(Error);
