//! Additional content of traces, and switches that change the recording while it runs.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Cycle, TensorProfiler};
use crate::{Interest, hook};
use mlprof_events::forking::MutexGuard;
use mlprof_events::uncounted;
use mlprof_trace::TraceOptions;
use mlprof_trace::internals::RecordedCycle;

/// Kinds of events that are switched on or off, overriding the settings.
#[derive(Default)]
pub(super) struct Switches(AtomicU32);

/// Interests that can be switched. All others are essential for a recording.
const SWITCHED: [Interest; 5] =
    [Interest::OPS, Interest::SHAPES, Interest::INPUTS, Interest::MEMORY, Interest::DEVICE];

impl Switches {
    /// Returns `asked` with the switches applied.
    #[inline]
    pub(super) fn applied(&self, asked: Interest) -> Interest {
        let (on, off) = both(self.0.load(Ordering::Relaxed));
        Interest::from_bits(asked.bits() & !off | on)
    }

    fn switch(&self, what: Interest, is_on: bool) {
        let which = SWITCHED.iter().fold(0, |all, one| all | one.bits()) & what.bits();
        let changed = |state: u32| {
            let (on, off) = both(state);
            let (on, off) = match is_on {
                true => (on | which, off & !which),
                false => (on & !which, off | which),
            };
            Some(u32::from(on) | u32::from(off) << u16::BITS)
        };
        // The closure always returns `Some`, so the update always succeeds.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

/// Returns the interests that are switched on, and those that are switched off.
fn both(state: u32) -> (u16, u16) {
    (state as u16, (state >> u16::BITS) as u16)
}

impl TensorProfiler {
    /// Enables or disables the number of floating-point operations per op, as `flops` in traces,
    /// and the bytes that it reads and writes at least, as `bytes`. These are the same numbers as
    /// in the table. It is off by default. It also enables [`record_shapes`](Self::record_shapes).
    /// The numbers are computed when the trace is written.
    #[must_use]
    pub fn with_flops(mut self, writes: bool) -> Self {
        self.settings.record_shapes |= writes;
        self.trace_options().with_flops = writes;
        self
    }

    /// Enables or disables the `Call stack` of each op in traces, by which TensorBoard's plugin
    /// groups ops. It is off by default. The stack contains actions, modules and spans, and
    /// functions with file and line. These are functions with `#[profiled]` and those instrumented
    /// by `mlprof run`.
    #[must_use]
    pub fn with_stack(self, writes: bool) -> Self {
        self.trace_options().with_stack = writes;
        self
    }

    /// Sets the `trace_id` of traces, which otherwise is a random number. For example, all files of
    /// a run can share one id.
    #[must_use]
    pub fn trace_id(self, id: impl Into<String>) -> Self {
        self.trace_options().trace_id = Some(id.into());
        self
    }

    /// Adds a text entry at the top level of traces that are written from now on. A second call
    /// with the same name replaces the entry.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`](crate::Error::Metadata) if traces already use that name.
    pub fn add_metadata(&self, name: &str, text: &str) -> Result<(), crate::Error> {
        Ok(uncounted(|| self.trace_options().add_metadata(name, text))?)
    }

    /// Adds a JSON value as metadata: `profiler.add_metadata_json("batch", "{\"size\": 64}")?`.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`](crate::Error::Metadata) if the value is not valid JSON, or if traces
    /// already use that name.
    pub fn add_metadata_json(&self, name: &str, json: &str) -> Result<(), crate::Error> {
        Ok(uncounted(|| self.trace_options().add_metadata_json(name, json))?)
    }

    /// Switches recording of ops, shapes, inputs, memory or devices on or off, overriding the
    /// settings, even in the middle of a step. It corresponds to torch's
    /// `toggle_collection_dynamic`. Other parts of the [`Interest`] are ignored: to stop those, see
    /// [`pause`](crate::ProfilerExt::pause).
    ///
    /// ```
    /// use mlprof_core::{Interest, TensorProfiler};
    ///
    /// let profiler = TensorProfiler::new();
    /// profiler.toggle_collection(Interest::SHAPES | Interest::DEVICE, false);
    /// // … steps that need less detail …
    /// profiler.toggle_collection(Interest::SHAPES | Interest::DEVICE, true);
    /// ```
    pub fn toggle_collection(&self, what: Interest, records: bool) {
        self.switches.switch(what, records);
        uncounted(hook::interest_changed);
    }

    fn trace_options(&self) -> MutexGuard<'_, TraceOptions> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Creates the cycle that ends now.
    pub(super) fn cycle(&self, is_complete: bool, recorded: RecordedCycle) -> Cycle {
        let mut cycle = Cycle::new(self.name_of_cycle(is_complete), recorded);
        cycle.trace = self.trace_options().clone();
        cycle
    }
}
