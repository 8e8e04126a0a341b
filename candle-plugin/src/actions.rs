//! The names that are measured in a loop of one's own. The trainer's are listed in
//! [`mlprof_train`], those of layers are made by [`mlprof_core::names::module`].

pub use mlprof_core::names::{BACKWARD, OPTIMIZER_UPDATE};
