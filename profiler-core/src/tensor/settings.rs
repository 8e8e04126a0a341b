//! What is recorded, and what is done with it.

use std::sync::OnceLock;

use super::export_settings::ExportSettings;
use super::report_settings::ReportSettings;
use super::{Cycle, TensorProfiler};
use crate::Interest;
use profiler_events::Schedule;

/// Whether kernels are timed on devices whose framework can (burn's CubeCL devices).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DeviceTiming {
    /// By the device's clock. Costs a round trip to the device per kernel.
    #[default]
    On,
    /// Only which kernels were launched, and by which op; costs next to nothing.
    NamesOnly,
}

type TraceHandler = Box<dyn Fn(&Cycle) + Send + Sync>;

pub(super) struct Settings {
    /// What the program says of steps; [`schedule`](Self::schedule) is what holds.
    own_schedule: Option<Schedule>,
    /// What the environment says of steps, from the first stage on.
    said_schedule: OnceLock<Schedule>,
    /// Whether the program need not know of steps.
    pub(super) records_without_steps: bool,
    pub(super) record_shapes: bool,
    pub(super) profile_memory: bool,
    pub(super) device_timing: DeviceTiming,
    pub(super) max_events: u64,
    pub(super) on_trace_ready: Option<TraceHandler>,
    pub(super) exports_trace: bool,
    pub(super) report: ReportSettings,
    pub(super) export: ExportSettings,
}

/// 40 bytes each: 640 MiB when all is taken.
const MAX_EVENTS: u64 = 1 << 24;

impl Default for Settings {
    fn default() -> Self {
        Self {
            own_schedule: Some(Schedule::default()),
            said_schedule: OnceLock::new(),
            records_without_steps: false,
            record_shapes: true,
            profile_memory: false,
            device_timing: DeviceTiming::default(),
            max_events: MAX_EVENTS,
            on_trace_ready: None,
            exports_trace: true,
            report: ReportSettings::default(),
            export: ExportSettings::default(),
        }
    }
}

impl Settings {
    pub(super) fn schedule(&self) -> Option<Schedule> {
        self.said_schedule.get().copied().or(self.own_schedule)
    }

    /// Another schedule holds from here on.
    pub(super) fn take_schedule(&self, said: Option<Schedule>) {
        if let Some(said) = said {
            self.said_schedule.get_or_init(|| said);
        }
    }

    /// While something is recorded.
    pub(super) fn interest(&self) -> Interest {
        let mut interest = Interest::ACTIONS | Interest::FUNCTIONS | Interest::OPS;
        if self.record_shapes {
            interest |= Interest::SHAPES;
        }
        if self.profile_memory {
            interest |= Interest::MEMORY;
        }
        if self.device_timing == DeviceTiming::On {
            interest |= Interest::DEVICE;
        }
        interest
    }
}

impl TensorProfiler {
    /// Records the steps that `schedule` says.
    ///
    /// # Errors
    ///
    /// [`InvalidSchedule`](super::InvalidSchedule) when it would never record anything.
    pub fn schedule(mut self, schedule: Schedule) -> Result<Self, super::InvalidSchedule> {
        schedule.check()?;
        self.settings.own_schedule = Some(schedule);
        Ok(self)
    }

    /// Records whole stages, without steps. Mind [`max_events`](Self::max_events).
    #[must_use]
    pub fn without_schedule(mut self) -> Self {
        self.settings.own_schedule = None;
        self
    }

    /// Whether a program without training steps is as good as one with: of a stage in which no step ever
    /// ends as much is recorded as [`max_events`](Self::max_events) allows (else a million events),
    /// what runs outside of all stages has a report beside theirs, and nobody is told to call `step()`.
    /// It is not by default.
    #[must_use]
    pub fn record_without_steps(mut self, records: bool) -> Self {
        self.settings.records_without_steps = records;
        self
    }

    /// Whether the shapes and types of ops' inputs are recorded; they are by default.
    #[must_use]
    pub fn record_shapes(mut self, records: bool) -> Self {
        self.settings.record_shapes = records;
        self
    }

    /// Whether allocations and frees are recorded; they are not by default.
    #[must_use]
    pub fn profile_memory(mut self, records: bool) -> Self {
        self.settings.profile_memory = records;
        self
    }

    /// How kernels are timed where the framework leaves a choice.
    #[must_use]
    pub fn device_timing(mut self, timing: DeviceTiming) -> Self {
        self.settings.device_timing = timing;
        self
    }

    /// How many events one cycle may hold, 16,777,216 by default, in 40 bytes each (allocations 48).
    /// Further ones are counted, and the report says how many there were.
    #[must_use]
    pub fn max_events(mut self, events: u64) -> Self {
        self.settings.max_events = events;
        self
    }

    /// Calls `handler` at the end of every cycle, on the thread that ends the step. It replaces the
    /// trace file that is written otherwise; a handler that panics loses its trace and nothing else.
    #[must_use]
    pub fn on_trace_ready(mut self, handler: impl Fn(&Cycle) + Send + Sync + 'static) -> Self {
        self.settings.on_trace_ready = Some(Box::new(handler));
        self
    }

    /// Whether a trace file is written at the end of every cycle, if there is a directory for it; it
    /// is by default.
    #[must_use]
    pub fn export_trace(mut self, exports: bool) -> Self {
        self.settings.exports_trace = exports;
        self
    }
}
