//! The names that are measured in a loop of one's own. The trainer's are listed in
//! [`profiler_train`], those of layers are made by [`profiler_core::names::module`].

pub use profiler_core::names::{BACKWARD, OPTIMIZER_UPDATE};
