//! Names of the actions in a hand-written loop. [`mlprof_train`] lists the trainer's actions.
//! [`mlprof_core::names::module`] creates the names of layers.

pub use mlprof_core::names::{BACKWARD, OPTIMIZER_UPDATE};
