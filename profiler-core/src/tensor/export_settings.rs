//! What is written of a finished cycle beside the trace, and where a trace goes that a user asks for.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::UNIX_EPOCH;

use super::trace_formats::TraceFormats;
use super::{Cycle, TensorProfiler};
use crate::trace;
use mlprof_events::clock::wall_time;

#[derive(Debug, Clone, Copy, Default)]
pub(super) struct ExportSettings {
    pub(super) formats: TraceFormats,
    pub(super) flame: bool,
    pub(super) parquet: bool,
    pub(super) memory_timeline: bool,
    pub(super) memory_snapshot: bool,
}

impl TensorProfiler {
    /// Whether flame graphs are written beside the trace at the end of every cycle: folded stacks,
    /// `{stem}.{metric}.folded`, and with the feature `flame` pictures of them, `{stem}.{metric}.svg`.
    /// See [`trace::flame`] for the metrics; one of which nothing was recorded has no file. They are
    /// not written by default.
    #[must_use]
    pub fn flame(mut self, writes: bool) -> Self {
        self.settings.export.flame = writes;
        self
    }

    /// Whether every cycle is written as Parquet tables beside the trace when it ends, with sums
    /// per op and per stage: `{stage}-{filename}.parquet/<table>/<rank>-<cycle>.parquet`, a folder
    /// for all ranks and cycles of a stage, which `mlprof analyze`, `sql`, `diff` and `merge` read
    /// as they read traces, and DuckDB, Spark and polars as they are. `mlprof schema` says what is
    /// in them. They are not written by default. Needs the feature `parquet`.
    ///
    /// The tables of a cycle appear when all of them are whole. Those that an earlier run of the same name has left
    /// are replaced; a stage that runs again in the same process has a folder of its own, `….-2.parquet`.
    ///
    /// *Cost*: some 4 µs per event at the end of the cycle, half of it on a thread of ours, and 180 bytes of memory
    /// for as long, so [`max_events`](Self::max_events) bounds it; 5 to 15 bytes on disk.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub fn parquet(mut self, writes: bool) -> Self {
        self.settings.export.parquet = writes;
        self
    }

    /// Whether the use of memory is written beside the trace at the end of every cycle, as
    /// `{stem}.memory.json` and as a picture, `{stem}.memory.html`: see [`trace::memory`]. Turns
    /// [`profile_memory`](Self::profile_memory) on. It is not written by default.
    #[must_use]
    pub fn memory_timeline(mut self, writes: bool) -> Self {
        self.settings.export.memory_timeline = writes;
        self.settings.profile_memory |= writes;
        self
    }

    /// Whether allocations and frees are written beside the trace at the end of every cycle as
    /// `{stem}.memory.pickle`, a snapshot of torch's allocator, which <https://pytorch.org/memory_viz> shows: see
    /// [`Cycle::export_memory_snapshot`]. Turns [`profile_memory`](Self::profile_memory) on. It is not written by
    /// default.
    #[must_use]
    pub fn memory_snapshot(mut self, writes: bool) -> Self {
        self.settings.export.memory_snapshot = writes;
        self.settings.profile_memory |= writes;
        self
    }
}

/// Now, in nanoseconds of Unix time.
pub(super) fn unix_nanoseconds() -> u128 {
    wall_time().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// For [`on_trace_ready`](TensorProfiler::on_trace_ready): writes every cycle to
/// `{directory}/{worker}.{nanoseconds}.pt.trace.json[.gz]`, as TensorBoard's profiler plugin wants
/// its files to be called. Without a name the worker is `{host}_{process number}`; in a run of
/// several processes on one directory every worker needs a name of its own. What file systems
/// refuse in names becomes `_`.
///
/// The directory is made if need be. Standard error hears of the first file that cannot be written;
/// the run goes on.
///
/// ```
/// use mlprof_core::TensorProfiler;
/// use mlprof_core::tensor::trace_handler;
///
/// let profiler = TensorProfiler::new().on_trace_ready(trace_handler("log/run", None, true));
/// ```
pub fn trace_handler(
    directory: impl Into<PathBuf>,
    worker_name: Option<&str>,
    use_gzip: bool,
) -> impl Fn(&Cycle) + Send + Sync + 'static {
    let directory = directory.into();
    let worker = worker_name.map_or_else(trace::internals::worker_name, str::to_owned);
    let has_warned = AtomicBool::new(false);
    move |cycle| {
        let compressed = if use_gzip { ".gz" } else { "" };
        let ending = format!("{}.pt.trace.json{compressed}", unix_nanoseconds());
        let path = directory.join(crate::output::safe_file_name(&worker, &ending));
        if let Err(error) = cycle.export_chrome_trace(&path)
            && !has_warned.swap(true, Ordering::Relaxed)
        {
            crate::output::say(format_args!(
                "warning: the profiler cannot write {}: {error}. The trace is missing; the run goes \
                 on. (Said once.)",
                path.display()
            ));
        }
    }
}
