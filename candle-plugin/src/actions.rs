//! The names that are measured in a loop of one's own. The trainer's are listed in
//! [`profiler_core::train`], those of layers are made by [`profiler_core::names::module`].

/// Backward alone; see [`ProfiledBackward`](crate::ProfiledBackward).
pub const BACKWARD: &str = "backward";
/// The optimizer; see [`ProfiledOptimizer`](crate::ProfiledOptimizer).
pub const OPTIMIZER_STEP: &str = "optimizer_step";
