//! Common imports for programs that profile themselves: `use mlprof_core::prelude::*;`.
//!
//! [`profile!`](crate::profile!) measures a scope. [`#[profiled]`](macro@profiled) measures a
//! function, a method or all methods of an `impl` block. The two have different names because one
//! `use` cannot import two macros of the same name.
//!
//! A program that depends on a plugin finds both in the plugin's prelude: `use
//! mlprof_candle::prelude::*;`.

#[cfg(feature = "numerics")]
pub use crate::numerics::NumericsProfiler;
pub use crate::nvtx::EmitNvtxExt;
#[cfg(feature = "tensor")]
pub use crate::tensor::{TensorProfiler, TraceFormat};
pub use crate::{
    AdvancedProfiler, BindFutureExt, Binding, Interrupt, IntoProfiler, MultiProfiler,
    PassThroughProfiler, Profiler, ProfilerExt, RunContext, Session, SimpleProfiler, Stage,
    activate, profile,
};
pub use mlprof_events::Schedule;
/// ```
/// use mlprof_core::prelude::*;
///
/// #[profiled]
/// fn load(path: &str) -> std::io::Result<String> {
///     std::fs::read_to_string(path)
/// }
///
/// struct Net;
///
/// #[profiled] // Net::forward, Net::predict
/// impl Net {
///     fn forward(&self, input: &[f32]) -> f32 {
///         input.iter().sum()
///     }
///
///     async fn predict(&self) -> f32 {
///         self.forward(&[1.0])
///     }
///
///     #[profiled(skip)]
///     const fn width(&self) -> usize {
///         128
///     }
/// }
///
/// let profiler = std::sync::Arc::new(AdvancedProfiler::new());
/// let active = activate(profiler.clone());
/// {
///     let _scope = profile!("run");
///     load("no such file").unwrap_err();
///     Net.forward(&[1.0]);
/// }
/// drop(active);
/// let report = profiler.summary();
/// assert!(report.contains("(load)") && report.contains("(Net::forward)"), "{report}");
/// ```
pub use mlprof_macros::profiled;
