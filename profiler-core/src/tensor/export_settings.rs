//! Settings for additional files of a finished cycle, and the trace handler for TensorBoard.

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
    /// Enables or disables flame graphs, written next to the trace at the end of every cycle. They
    /// are off by default. The folded stacks are `{stem}.{metric}.folded`. With the feature
    /// `flame`, pictures are written as `{stem}.{metric}.svg`. See [`trace::flame`] for the
    /// metrics. A metric without recorded data has no file.
    #[must_use]
    pub fn flame(mut self, writes: bool) -> Self {
        self.settings.export.flame = writes;
        self
    }

    /// Enables or disables Parquet tables for every cycle, with sums per op and per stage. They are
    /// off by default and need the feature `parquet`. The files are
    /// `{stage}-{filename}.parquet/<table>/<rank>-<cycle>.parquet`, in one folder for all ranks and
    /// cycles of a stage. `mlprof analyze`, `sql`, `diff` and `merge` read them like traces.
    /// DuckDB, Spark and polars can read them directly. `mlprof schema` documents their contents.
    ///
    /// The tables of a cycle appear only when all of them are complete. Tables of an earlier run
    /// with the same name are replaced. A stage that runs again in the same process has its own
    /// folder, `….-2.parquet`.
    ///
    /// *Cost*: about 4 µs per event at the end of the cycle, half of it on an mlprof thread.
    /// Meanwhile each event uses 180 bytes of memory, which [`max_events`](Self::max_events)
    /// bounds. Each event takes 5 to 15 bytes on disk.
    #[cfg(feature = "parquet")]
    #[must_use]
    pub fn parquet(mut self, writes: bool) -> Self {
        self.settings.export.parquet = writes;
        self
    }

    /// Enables or disables a memory timeline, written next to the trace at the end of every cycle.
    /// It is off by default. The files are `{stem}.memory.json` and a chart, `{stem}.memory.html`:
    /// see [`trace::memory`]. It also enables [`profile_memory`](Self::profile_memory).
    #[must_use]
    pub fn memory_timeline(mut self, writes: bool) -> Self {
        self.settings.export.memory_timeline = writes;
        self.settings.profile_memory |= writes;
        self
    }

    /// Enables or disables a memory snapshot, written next to the trace at the end of every cycle.
    /// It is off by default. The file `{stem}.memory.pickle` has the format of torch's allocator
    /// snapshots, which <https://pytorch.org/memory_viz> displays: see
    /// [`Cycle::export_memory_snapshot`]. It also enables [`profile_memory`](Self::profile_memory).
    #[must_use]
    pub fn memory_snapshot(mut self, writes: bool) -> Self {
        self.settings.export.memory_snapshot = writes;
        self.settings.profile_memory |= writes;
        self
    }
}

/// Returns the current Unix time in nanoseconds.
pub(super) fn unix_nanoseconds() -> u128 {
    wall_time().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos()
}

/// Creates a handler for [`on_trace_ready`](TensorProfiler::on_trace_ready). It writes every cycle
/// to `{directory}/{worker}.{nanoseconds}.pt.trace.json[.gz]`, the file names that TensorBoard's
/// profiler plugin expects. The default worker name is `{host}_{process number}`. If several
/// processes write to one directory, every worker needs its own name. Characters that file systems
/// do not allow become `_`.
///
/// A missing directory is created. The first write error is printed on standard error, and the run
/// continues.
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
                "warning: cannot write {}: {error}. The trace is missing; the run continues. \
                 (Reported once.)",
                path.display()
            ));
        }
    }
}
