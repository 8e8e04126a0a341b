//! What traces say beside what is recorded, and what is recorded, changed while it runs.

use std::sync::PoisonError;
use std::sync::atomic::{AtomicU32, Ordering};

use super::{Cycle, TensorProfiler};
use crate::{Interest, hook};
use mlprof_events::forking::MutexGuard;
use mlprof_events::uncounted;
use mlprof_trace::TraceOptions;
use mlprof_trace::internals::RecordedCycle;

/// What is recorded or not from here on, whatever the settings say.
#[derive(Default)]
pub(super) struct Switches(AtomicU32);

/// What can be switched: the rest is what a recording is.
const SWITCHED: [Interest; 5] =
    [Interest::OPS, Interest::SHAPES, Interest::INPUTS, Interest::MEMORY, Interest::DEVICE];

impl Switches {
    /// The interest that is left of `asked`.
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
        // Always changes it.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
    }
}

/// What is on and what is off, whatever the settings say.
fn both(state: u32) -> (u16, u16) {
    (state as u16, (state >> u16::BITS) as u16)
}

impl TensorProfiler {
    /// Whether traces say how many floating-point operations each op computes, as `flops`: those that the
    /// table counts. Turns [`record_shapes`](Self::record_shapes) on; it is reckoned when the trace is
    /// written. They do not by default.
    #[must_use]
    pub fn with_flops(mut self, writes: bool) -> Self {
        self.settings.record_shapes |= writes;
        self.trace_options().with_flops = writes;
        self
    }

    /// Whether traces say what was open around each op, as `Call stack`, which TensorBoard's plugin groups ops
    /// by: actions, modules, spans and functions, these with file and line. Functions are those with
    /// `#[profiled]` and those that `mlprof run` has put hooks into. They do not by default.
    #[must_use]
    pub fn with_stack(self, writes: bool) -> Self {
        self.trace_options().with_stack = writes;
        self
    }

    /// What traces are known by, as `trace_id`, in place of a random number: the same in all files of a run,
    /// say.
    #[must_use]
    pub fn trace_id(self, id: impl Into<String>) -> Self {
        self.trace_options().trace_id = Some(id.into());
        self
    }

    /// Has traces that are written from here on say this of themselves, at the top; again under the same name
    /// replaces it.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`](crate::Error::Metadata) if traces have that name themselves.
    pub fn add_metadata(&self, name: &str, text: &str) -> Result<(), crate::Error> {
        Ok(uncounted(|| self.trace_options().add_metadata(name, text))?)
    }

    /// The same for a value in JSON: `profiler.add_metadata_json("batch", "{\"size\": 64}")?`.
    ///
    /// # Errors
    ///
    /// [`Error::Metadata`](crate::Error::Metadata) if it is no JSON, or traces have that name
    /// themselves.
    pub fn add_metadata_json(&self, name: &str, json: &str) -> Result<(), crate::Error> {
        Ok(uncounted(|| self.trace_options().add_metadata_json(name, json))?)
    }

    /// Has ops, shapes, inputs, memory or devices recorded from here on or not, whatever was asked for before,
    /// also in the middle of a step; torch's `toggle_collection_dynamic`. Of an [`Interest`] the rest is not
    /// looked at: see [`pause`](crate::ProfilerExt::pause).
    ///
    /// ```
    /// use mlprof_core::{Interest, TensorProfiler};
    ///
    /// let profiler = TensorProfiler::new();
    /// profiler.toggle_collection(Interest::SHAPES | Interest::DEVICE, false);
    /// // … what need not be looked at so closely …
    /// profiler.toggle_collection(Interest::SHAPES | Interest::DEVICE, true);
    /// ```
    pub fn toggle_collection(&self, what: Interest, records: bool) {
        self.switches.switch(what, records);
        uncounted(hook::interest_changed);
    }

    fn trace_options(&self) -> MutexGuard<'_, TraceOptions> {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The cycle that ends now.
    pub(super) fn cycle(&self, is_complete: bool, recorded: RecordedCycle) -> Cycle {
        let mut cycle = Cycle::new(self.name_of_cycle(is_complete), recorded);
        cycle.trace = self.trace_options().clone();
        cycle
    }
}
