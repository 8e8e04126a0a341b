//! What is recorded, and what is done with it.

use std::sync::OnceLock;

use super::export_settings::ExportSettings;
use super::report_settings::ReportSettings;
use super::{Cycle, TensorProfiler};
use crate::Interest;
use crate::report::Setting;
use crate::report::number::grouped;
use mlprof_events::{GroupBy, Schedule, ScheduleError};

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
type CycleTaker = Box<dyn Fn(Cycle) + Send + Sync>;

pub(super) struct Settings {
    /// What the program says of steps; [`schedule`](Self::schedule) is what holds.
    own_schedule: Option<Schedule>,
    /// Of a schedule that cannot be followed, which took no effect.
    pub(super) refused: Option<ScheduleError>,
    /// What the environment says of steps, from the first stage on.
    said_schedule: OnceLock<Schedule>,
    /// The number of the first step of a stage.
    pub(super) first_step: u64,
    /// Whether the program need not know of steps.
    pub(super) records_without_steps: bool,
    pub(super) record_shapes: bool,
    pub(super) record_inputs: bool,
    pub(super) profile_memory: bool,
    pub(super) device_timing: DeviceTiming,
    pub(super) max_events: u64,
    pub(super) on_trace_ready: Option<TraceHandler>,
    /// Who takes cycles away, in place of what is made of them here.
    pub(super) takes_cycles: Option<CycleTaker>,
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
            refused: None,
            said_schedule: OnceLock::new(),
            first_step: 0,
            records_without_steps: false,
            record_shapes: true,
            record_inputs: false,
            profile_memory: false,
            device_timing: DeviceTiming::default(),
            max_events: MAX_EVENTS,
            on_trace_ready: None,
            takes_cycles: None,
            exports_trace: true,
            report: ReportSettings::default(),
            export: ExportSettings::default(),
        }
    }
}

impl Settings {
    /// What was asked for, but for the schedule, which the report says itself.
    pub(super) fn in_words(&self) -> Vec<Setting> {
        let group_by = self.report.group_by;
        let stack = match group_by.stack {
            0 => None,
            calls => Some(format!("{} calls around", grouped(calls as u64))),
        };
        let keys = [
            Some("name".to_owned()),
            group_by.input_shapes.then(|| "shapes".to_owned()),
            stack,
            group_by.module.then(|| "module".to_owned()),
            group_by.phase.then(|| "phase".to_owned()),
        ];
        let keys: Vec<String> = keys.into_iter().flatten().collect();
        let timing = match self.device_timing {
            DeviceTiming::On => "timed by the device, where a framework leaves the choice",
            DeviceTiming::NamesOnly => "names only, where a framework leaves the choice",
        };
        let inputs = self.record_inputs.then(|| Setting::recorded("inputs", true));
        let settings = [
            Some(Setting::recorded("shapes", self.record_shapes)),
            inputs,
            Some(Setting::recorded("memory", self.profile_memory)),
            Some(Setting::new("ops told apart by", keys.join(", "))),
            Some(Setting::new("kernels", timing)),
            Some(Setting::new(
                "events in a recording",
                format!("at most {}", grouped(self.max_events)),
            )),
        ];
        settings.into_iter().flatten().collect()
    }

    /// All that rows can be told apart by, where the report's table does not do so itself.
    pub(super) fn finest(&self) -> Option<GroupBy> {
        let own = self.report.group_by;
        let mut finest = own.module().phase();
        finest.input_shapes |= self.record_shapes;
        (finest != own).then_some(finest)
    }

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
        if self.record_inputs {
            interest |= Interest::SHAPES | Interest::INPUTS;
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
    /// Sets the steps that are recorded.
    ///
    /// A schedule that would never record a step has no effect: trainers and sessions refuse the
    /// profiler with [`Error::Schedule`](crate::Error::Schedule), and a profiler that the program
    /// activates itself keeps the schedule it had and states the error in its report.
    #[must_use]
    pub fn schedule(mut self, schedule: Schedule) -> Self {
        match schedule.check() {
            Ok(()) => {
                self.settings.own_schedule = Some(schedule);
                self.settings.refused = None;
            }
            Err(error) => self.settings.refused = Some(error),
        }
        self
    }

    /// Records whole stages, without steps. Mind [`max_events`](Self::max_events).
    #[must_use]
    pub fn without_schedule(mut self) -> Self {
        self.settings.own_schedule = None;
        self.settings.refused = None;
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

    /// Whether all that is known of ops' inputs is recorded with their shapes, for traces: strides, numbers and
    /// switches (torch's `Concrete Inputs`), and which overload of its name an op is. It is not by default:
    /// only tch's ops have it, and they take longer.
    #[must_use]
    pub fn record_inputs(mut self, records: bool) -> Self {
        self.settings.record_inputs = records;
        self.settings.record_shapes |= records;
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

    /// The number of the step with which it comes in, of a stage that has begun before; the schedule counts
    /// from 0 still.
    #[doc(hidden)]
    #[must_use]
    pub fn begin_at_step(mut self, step: u64) -> Self {
        self.settings.first_step = step;
        self
    }

    /// Hands every cycle over when it ends, on the thread that ends the step, which then goes on: nothing is
    /// counted for a report, and no file is written.
    #[doc(hidden)]
    #[must_use]
    pub fn hand_cycles_to(mut self, taker: impl Fn(Cycle) + Send + Sync + 'static) -> Self {
        self.settings.takes_cycles = Some(Box::new(taker));
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
