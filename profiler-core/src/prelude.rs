//! What a program that measures itself usually needs, for `use mlprof_core::prelude::*;`.
//!
//! The attribute `#[profile]` lives here, and the macro [`profile!`](crate::profile!) at the root
//! of the crate, because one `use` can import only one macro of a name. In one module the two do
//! not disturb each other as long as one is imported by name and the other with a `*`:
//!
//! ```
//! use mlprof_core::prelude::*; // brings the attribute …
//! use mlprof_core::profile; // … and this the macro
//!
//! #[profile]
//! fn forward(input: &[f32]) -> f32 {
//!     let _scope = profile!("sum");
//!     input.iter().sum()
//! }
//!
//! let profiler = std::sync::Arc::new(AdvancedProfiler::new());
//! let active = activate(profiler.clone());
//! assert_eq!(forward(&[1.0, 2.0]), 3.0);
//! drop(active);
//! assert!(profiler.summary().contains("(forward)"));
//! ```
//!
//! A program that depends on a plugin alone takes `use mlprof_candle::prelude::*;`, which brings
//! the macro as `profile!` and the attribute as `#[profiled]`. All the rest is in
//! `mlprof_candle::mlprof_core`.
//!
//! No prelude can bring both as `profile`: macros and attributes share one namespace, in which a
//! `use` binds one item per name (rustc: `E0252`, "`profile` must be defined only once in the macro
//! namespace of this module"). Where only the other one is imported, rustc reports "cannot find
//! attribute `profile` in this scope … it is a function-like macro": write `#[profiled]`. For
//! "cannot find macro `profile` in this scope … it is an attribute" add
//! `use mlprof_core::profile;`.
//!
//! In a module that has `use super::*;`, import the attribute by name,
//! `use mlprof_core::prelude::profile;`. Either can also be written with its path:
//! `#[mlprof_core::prelude::profile]` and `mlprof_core::profile!("sum")`. With both this `*` and
//! that of the crate's root, the name `profile` alone is neither: there write
//! [`profile_scope!`](crate::profile_scope!), which both bring, and the attribute with its path.

/// [`profile!`](crate::profile!) by a name that no attribute has, so that it is known wherever
/// `mlprof_core::prelude::*` is, also beside `mlprof_core::*`.
///
/// ```
/// use mlprof_core::prelude::*;
/// use mlprof_core::*;
///
/// #[mlprof_core::prelude::profile]
/// fn forward(input: &[f32]) -> f32 {
///     let _scope = profile_scope!("sum");
///     input.iter().sum()
/// }
///
/// let profiler = std::sync::Arc::new(AdvancedProfiler::new());
/// let active = activate(profiler.clone());
/// forward(&[1.0, 2.0]);
/// drop(active);
/// let report = profiler.summary();
/// assert!(report.contains("(forward)") && report.contains("Profile stats for: sum"), "{report}");
/// ```
#[macro_export]
macro_rules! profile_scope {
    ($name:expr) => {
        $crate::profile!($name)
    };
}
pub use profile_scope;

#[cfg(feature = "numerics")]
pub use crate::numerics::NumericsProfiler;
pub use crate::nvtx::EmitNvtxExt;
#[cfg(feature = "tensor")]
pub use crate::tensor::{TensorProfiler, TraceFormat};
pub use crate::{
    AdvancedProfiler, BindFutureExt, Binding, Interrupt, IntoProfiler, PassThroughProfiler,
    Profiler, ProfilerExt, Several, SimpleProfiler, activate,
};
pub use mlprof_events::Schedule;
/// ```
/// use mlprof_core::prelude::*;
///
/// #[profile]
/// fn load(path: &str) -> std::io::Result<String> {
///     std::fs::read_to_string(path)
/// }
///
/// struct Net;
///
/// #[profile] // Net::forward, Net::predict
/// impl Net {
///     fn forward(&self, input: &[f32]) -> f32 {
///         input.iter().sum()
///     }
///
///     async fn predict(&self) -> f32 {
///         self.forward(&[1.0])
///     }
///
///     #[profile(skip)]
///     const fn width(&self) -> usize {
///         128
///     }
/// }
///
/// let profiler = std::sync::Arc::new(AdvancedProfiler::new());
/// let active = activate(profiler.clone());
/// {
///     let _scope = mlprof_core::profile!("run");
///     load("no such file").unwrap_err();
///     Net.forward(&[1.0]);
/// }
/// drop(active);
/// let report = profiler.summary();
/// assert!(report.contains("(load)") && report.contains("(Net::forward)"), "{report}");
/// ```
pub use mlprof_macros::profile;
/// The attribute [`profile`](macro@profile) by a name that no other macro has, so that it can stand
/// beside [`profile!`](crate::profile!). The plugins' preludes bring both.
///
/// ```
/// use mlprof_core::prelude::profiled;
/// use mlprof_core::profile;
///
/// #[profiled]
/// fn forward(input: &[f32]) -> f32 {
///     let _scope = profile!("sum");
///     input.iter().sum()
/// }
/// # forward(&[1.0]);
/// ```
pub use mlprof_macros::profile as profiled;
