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
        "cannot create the optimizer: it received no variables; build the model before its \
         optimizer, and take the variables from the model's VarMap"
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
        "backward reached none of the optimizer's {variables} variables: build the model with the \
         VarMap of the optimizer, and compute the loss from tensors that are not detached"
    )]
    NotReached {
        /// Number of variables of the optimizer.
        variables: usize,
    },
}

mlprof_core::debug_as_display!(Error);
