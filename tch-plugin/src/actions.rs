//! The names of what is measured in loops of one's own, in one place.
//!
//! What the trainer measures is listed in [`profiler_core::train`]; modules are
//! `[module]{type}: {path}`, see [`ProfileModule`](crate::ProfileModule).

/// From the loss back to the gradients.
pub const BACKWARD: &str = "backward";
/// The optimizer moves the variables.
pub const OPTIMIZER_STEP: &str = "optimizer_step";
/// Gradients are forgotten.
pub const OPTIMIZER_ZERO_GRAD: &str = "optimizer_zero_grad";
/// Gradients are clipped.
pub const CONFIGURE_GRADIENT_CLIPPING: &str = "configure_gradient_clipping";
