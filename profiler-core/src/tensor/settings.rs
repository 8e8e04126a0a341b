//! Settings for recording and for processing the results.

use std::sync::OnceLock;

use super::export_settings::ExportSettings;
use super::report_settings::ReportSettings;
use super::{Cycle, TensorProfiler};
use crate::Interest;
use crate::report::Setting;
use crate::report::number::grouped;
use mlprof_events::{GroupBy, Schedule, ScheduleError};

/// Measurement of kernels on devices whose framework supports it (burn's CubeCL devices).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DeviceTiming {
    /// Times kernels with the device's clock. It costs one round trip to the device per kernel.
    #[default]
    On,
    /// Only records which kernels were launched, and by which op. The cost is negligible.
    NamesOnly,
}

type TraceHandler = Box<dyn Fn(&Cycle) + Send + Sync>;
type CycleTaker = Box<dyn Fn(Cycle) + Send + Sync>;

pub(super) struct Settings {
    /// Schedule set by the program. [`schedule`](Self::schedule) returns the effective one.
    own_schedule: Option<Schedule>,
    /// Error of a schedule that was rejected.
    pub(super) refused: Option<ScheduleError>,
    /// Schedule from the environment, read at the first stage.
    said_schedule: OnceLock<Schedule>,
    /// Number of the first step of a stage.
    pub(super) first_step: u64,
    /// Set if the program may run without steps.
    pub(super) records_without_steps: bool,
    pub(super) record_shapes: bool,
    pub(super) record_inputs: bool,
    pub(super) profile_memory: bool,
    pub(super) device_timing: DeviceTiming,
    pub(super) max_events: u64,
    pub(super) on_trace_ready: Option<TraceHandler>,
    /// Receiver of finished cycles, which replaces all further processing here.
    pub(super) takes_cycles: Option<CycleTaker>,
    pub(super) exports_trace: bool,
    pub(super) report: ReportSettings,
    pub(super) export: ExportSettings,
}

/// Default event limit. Each event takes 40 bytes, so the maximum is 640 MiB.
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
    /// Returns the settings as text, without the schedule, which the report shows separately.
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

    /// Returns the finest available grouping, or `None` if the report's table already uses it.
    pub(super) fn finest(&self) -> Option<GroupBy> {
        let own = self.report.group_by;
        let mut finest = own.module().phase();
        finest.input_shapes |= self.record_shapes;
        (finest != own).then_some(finest)
    }

    pub(super) fn schedule(&self) -> Option<Schedule> {
        self.said_schedule.get().copied().or(self.own_schedule)
    }

    /// Overrides the schedule with one from the environment, if there is one.
    pub(super) fn take_schedule(&self, said: Option<Schedule>) {
        if let Some(said) = said {
            self.said_schedule.get_or_init(|| said);
        }
    }

    /// Returns the interest while a recording is active.
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
    /// Selects the steps to record.
    ///
    /// A schedule that would never record a step is ignored. Trainers and sessions then reject the
    /// profiler with [`Error::Schedule`](crate::Error::Schedule). A profiler that the program
    /// activates itself keeps its previous schedule and shows the error in its report.
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

    /// Records whole stages instead of steps. [`max_events`](Self::max_events) limits the
    /// recording.
    #[must_use]
    pub fn without_schedule(mut self) -> Self {
        self.settings.own_schedule = None;
        self.settings.refused = None;
        self
    }

    /// Enables or disables full support for programs without training steps. It is off by default.
    /// When enabled:
    ///
    /// - A stage without any finished step is recorded up to [`max_events`](Self::max_events),
    ///   instead of a million events.
    /// - Work outside of all stages has its own report.
    /// - No message advises calling `step()`.
    #[must_use]
    pub fn record_without_steps(mut self, records: bool) -> Self {
        self.settings.records_without_steps = records;
        self
    }

    /// Enables or disables recording of the shapes and types of op inputs. It is enabled by
    /// default.
    #[must_use]
    pub fn record_shapes(mut self, records: bool) -> Self {
        self.settings.record_shapes = records;
        self
    }

    /// Enables or disables recording of all known details of op inputs, with their shapes, for
    /// traces. The details are strides, scalar values (torch's `Concrete Inputs`) and the overload
    /// of an op. It is off by default. Only tch provides these details, and recording them takes
    /// longer.
    #[must_use]
    pub fn record_inputs(mut self, records: bool) -> Self {
        self.settings.record_inputs = records;
        self.settings.record_shapes |= records;
        self
    }

    /// Enables or disables recording of allocations and frees. It is off by default.
    #[must_use]
    pub fn profile_memory(mut self, records: bool) -> Self {
        self.settings.profile_memory = records;
        self
    }

    /// Selects how kernels are timed, if the framework supports several ways.
    #[must_use]
    pub fn device_timing(mut self, timing: DeviceTiming) -> Self {
        self.settings.device_timing = timing;
        self
    }

    /// Limits the number of events per cycle. The default is 16,777,216. Each event takes 40 bytes,
    /// and each allocation 48. Further events are counted, and the report shows their number.
    #[must_use]
    pub fn max_events(mut self, events: u64) -> Self {
        self.settings.max_events = events;
        self
    }

    /// Calls `handler` at the end of every cycle, on the thread that ends the step. It replaces the
    /// default trace file. If the handler panics, only its trace is lost.
    #[must_use]
    pub fn on_trace_ready(mut self, handler: impl Fn(&Cycle) + Send + Sync + 'static) -> Self {
        self.settings.on_trace_ready = Some(Box::new(handler));
        self
    }

    /// Sets the number of the step at which this profiler joins a stage that is already running.
    /// The schedule still counts from 0.
    #[doc(hidden)]
    #[must_use]
    pub fn begin_at_step(mut self, step: u64) -> Self {
        self.settings.first_step = step;
        self
    }

    /// Passes every finished cycle to `taker`, on the thread that ends the step. The cycles are
    /// then neither counted for a report nor written to files.
    #[doc(hidden)]
    #[must_use]
    pub fn hand_cycles_to(mut self, taker: impl Fn(Cycle) + Send + Sync + 'static) -> Self {
        self.settings.takes_cycles = Some(Box::new(taker));
        self
    }

    /// Enables or disables the trace file at the end of every cycle. It is enabled by default and
    /// requires a directory.
    #[must_use]
    pub fn export_trace(mut self, exports: bool) -> Self {
        self.settings.exports_trace = exports;
        self
    }
}
