//! Entry points for code instrumented by `mlprof run`, and the measurements that `mlprof run`
//! requests from a process.
//!
//! The compiler wrapper of `mlprof run` inserts a hook at the beginning of chosen functions, in any
//! crate. The instrumented crate does not depend on this crate. It calls C functions of the
//! *runtime* library, which is linked into its program. The runtime forwards the calls to a
//! [`Sink`]. This is the copy of this crate in the program itself, or the runtime's own copy if the
//! program has none. Instrumented ops therefore reach any profiler that the program has activated.
//! In a program that does not use mlprof, [`RunSettings`] defines the profilers.
//!
//! ```text
//! spliced crate ──▶ runtime (C functions) ──▶ Sink ──▶ trait Profiler
//! ```
//!
//! *Configuration*: the environment variable [`RUN_VARIABLE`] names a file of [`RunSettings`],
//! which is read before `main`.
//!
//! *Results*: they are written when the process ends in one of these ways:
//!
//! - It returns from `main` or calls `exit`.
//! - It ends by a fault or `abort`.
//! - It receives SIGINT, SIGTERM, SIGHUP or SIGQUIT and has no handler of its own.
//!
//! A process that ends otherwise (`_exit`, SIGKILL, `exec`) leaves the results written until then
//! and a [record](ProcessRecord) from which `mlprof run` detects the missing rest. A forked child
//! belongs to the run from its first measured call on. It has a record, a name and reports of its
//! own.
//!
//! *Cost* of an instrumented function while no profiler wants it: one relaxed load. Only Linux is
//! supported. On other systems the sink is never registered.

#[cfg(target_os = "linux")]
mod crash;
mod enabled_flags;
mod environment;
mod lines_and_samples;
mod listening;
mod profilers;
mod results;
mod returned;
mod run;
mod signals;
mod sink;
mod site;

#[cfg(target_os = "linux")]
mod registration;

pub use crate::report::internals::has_numbers;
pub use listening::why_no_steps;
pub(crate) use run::with_run;
pub use run::{lines_and_samples_so_far, profiler_of_run};

pub use crate::hook::has_ops_of;
pub use enabled_flags::wanted;
pub use mlprof_events::run::{
    AdvancedSettings, LinesSettings, NumericsSettings, ProcessRecord, ProgramRecord, RUN_VARIABLE,
    RunSettings, SamplesSettings, SettingsError, TensorSettings,
};
pub use returned::SplicedTensor;
pub use sink::{AllocationsSink, LinesSink, SINK_VERSION, Sink, sink};
pub use site::{Site, SiteKind};

/// Returns `true` if this program was built by `mlprof run`. In that case a runtime forwards calls
/// of instrumented code to this copy of the crate.
pub fn is_present() -> bool {
    enabled_flags::is_connected()
}
