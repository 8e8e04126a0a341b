//! What can go wrong between candle and the loop.

use candle_core::Shape;

/// Why something of this crate failed.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// candle refused.
    #[error(transparent)]
    Candle(#[from] candle_core::Error),
    /// There is nothing to train.
    #[error(
        "the optimizer was given no variables: build the model before its optimizer, and take the \
         variables from the VarMap that the model was built with"
    )]
    NoVariables,
    /// Backward needs one number to start from.
    #[error("the loss has the shape {shape:?} instead of one element: take its mean or its sum")]
    NotOneElement {
        /// The shape of what the training step returned.
        shape: Shape,
    },
    /// The loss has nothing to do with the optimizer's variables.
    #[error(
        "backward reached none of the optimizer's {variables} variables: was the model built with \
         another VarMap, or is the loss computed from a detached tensor?"
    )]
    NotReached {
        /// How many variables the optimizer has.
        variables: usize,
    },
}

mlprof_core::debug_as_display!(Error);
