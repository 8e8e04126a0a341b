//! What code calls that `mlprof run` has put hooks into, and what `mlprof run` asks of a process.
//!
//! The compiler wrapper of `mlprof run` puts a hook at the beginning of the chosen functions of any
//! crate. Such a crate knows nothing of this one: it calls C functions of the *runtime* library
//! that its program is linked with. The runtime hands the calls on to a [`Sink`]: the copy of this
//! crate that the program itself is built with, if there is one, else the runtime's own. So spliced
//! ops reach whichever profiler the program has made active, and a program that does not know
//! mlprof has its profilers made by [`RunSettings`].
//!
//! ```text
//! spliced crate ──▶ runtime (C functions) ──▶ Sink ──▶ trait Profiler
//! ```
//!
//! *From the outside*: the environment variable [`RUN_VARIABLE`] names a file of [`RunSettings`].
//! They are read before `main`. The results come when the process ends: by returning from `main`,
//! by `exit`, by a fault or `abort`, and by SIGINT, SIGTERM, SIGHUP or SIGQUIT where the program has
//! no handler of its own. Who ends otherwise (`_exit`, SIGKILL, `exec`) leaves what was written until
//! then, and a [record](ProcessRecord) by which `mlprof run` sees that there is more. A forked child is a process of the run
//! from its first measured call on, with a record, a name and reports of its own.
//!
//! *Cost* of a spliced function while nobody wants to know: one relaxed load. Linux only so far: on
//! other systems nothing registers.

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

/// Whether this program was built by `mlprof run`: whether there is a runtime that hands calls of
/// spliced code to this copy of the crate.
pub fn is_present() -> bool {
    enabled_flags::is_connected()
}
