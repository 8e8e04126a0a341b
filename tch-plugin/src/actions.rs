//! Names of the actions in hand-written loops.
//!
//! [`mlprof_train`] lists the trainer's actions. Modules are named `[module]{type}: {path}`, see
//! [`ProfileLayerExt`](crate::ProfileLayerExt).

pub use mlprof_core::names::{
    BACKWARD, CONFIGURE_GRADIENT_CLIPPING, OPTIMIZER_UPDATE, OPTIMIZER_ZERO_GRAD,
};
