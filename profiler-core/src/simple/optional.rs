//! Measurements of the Simple profiler that are off by default: device time and counters of the
//! operating system.

use std::sync::Arc;

use super::counters::{CounterSelection, CountersRecorder};
use crate::device_time::DeviceTime;
use crate::hook::RegionSink;
use crate::report::{Setting, SimpleReport};
use crate::{Action, Stage, startup};

/// Recorders of the selected measurements.
#[derive(Default)]
pub(super) struct OptionalMeasurements {
    devices: Option<DeviceTime>,
    counters: CounterSelection,
    /// Set when at least one counter is selected.
    recorder: Option<Box<dyn CountersRecorder>>,
}

impl OptionalMeasurements {
    /// Measures device time, if there is a sink for it.
    pub(super) fn measure_devices(&mut self, sink: Option<Arc<dyn RegionSink>>) {
        self.devices = sink.map(DeviceTime::new);
    }

    pub(super) fn measure_io(&mut self) {
        self.count(CounterSelection { io: true, ..self.counters });
    }

    pub(super) fn measure_cpu(&mut self) {
        self.count(CounterSelection { cpu: true, ..self.counters });
    }

    fn count(&mut self, counters: CounterSelection) {
        self.counters = counters;
        self.recorder = counters.recorder();
    }

    pub(super) fn counters(&self) -> CounterSelection {
        self.counters
    }

    pub(super) fn start(&self, action: Action) {
        if let Some(recorder) = &self.recorder {
            // Start-up times are read from files once. Reading them here keeps the bytes out of the
            // first action's counters.
            startup::note_first_action();
            recorder.start(action);
        }
        if let Some(devices) = &self.devices {
            devices.open(action);
        }
    }

    pub(super) fn stop(&self, action: Action) {
        if let Some(devices) = &self.devices {
            devices.close(action);
        }
        if let Some(recorder) = &self.recorder {
            recorder.stop(action);
        }
    }

    pub(super) fn begin(&self, stage: Stage) {
        if let Some(recorder) = &self.recorder {
            recorder.begin(stage);
        }
        if let Some(devices) = &self.devices {
            devices.reset();
        }
    }

    pub(super) fn end(&self, stage: Option<Stage>) {
        if let Some(recorder) = &self.recorder {
            recorder.end(stage);
        }
    }

    /// Adds the settings, numbers and notes of the measurements to the report. `measurements` is
    /// `None` if all of them are off.
    pub(super) fn add_to(measurements: Option<&Self>, report: &mut SimpleReport) {
        let counters = measurements.map_or_else(CounterSelection::default, Self::counters);
        report.header.settings = vec![
            Setting::recorded("CPU time", counters.cpu),
            Setting::recorded("bytes read and written", counters.io),
        ];
        let Some(measurements) = measurements else { return };
        if let Some(devices) = &measurements.devices {
            report.header.settings.push(Setting::recorded("device time", true));
            report.header.notes.extend(devices.notes());
        }
        if let Some(recorder) = &measurements.recorder {
            recorder.add_to(report);
        }
    }
}
