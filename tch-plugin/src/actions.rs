//! The names of what is measured in loops of one's own, in one place.
//!
//! What the trainer measures is listed in [`mlprof_train`]; modules are
//! `[module]{type}: {path}`, see [`ProfileLayerExt`](crate::ProfileLayerExt).

pub use mlprof_core::names::{
    BACKWARD, CONFIGURE_GRADIENT_CLIPPING, OPTIMIZER_UPDATE, OPTIMIZER_ZERO_GRAD,
};
