//! What the report of the Tensor profiler shows.

use super::{GroupBy, TensorProfiler};
use crate::report::tensor::{SortKey, TableOptions, TimeUnit};

/// Rows of the table in the report, as Lightning's `PyTorchProfiler` has it.
const ROWS: usize = 20;

#[derive(Debug, Clone)]
pub(super) struct ReportSettings {
    pub(super) group_by: GroupBy,
    /// `None`: self device time if there is device time, else self host time.
    pub(super) sort_by: Option<SortKey>,
    pub(super) row_limit: Option<usize>,
    pub(super) time_unit: Option<TimeUnit>,
    /// `None`: what the devices' hook calls them.
    pub(super) device_name: Option<String>,
}

impl Default for ReportSettings {
    fn default() -> Self {
        Self {
            group_by: GroupBy::name(),
            sort_by: None,
            row_limit: Some(ROWS),
            time_unit: None,
            device_name: None,
        }
    }
}

impl ReportSettings {
    /// What tables call the device.
    pub(super) fn device_name(&self) -> String {
        let name = self.device_name.clone().or_else(mlprof_events::platform);
        name.unwrap_or_else(|| "Device".to_owned())
    }

    /// How the table of the report is painted.
    pub(super) fn table_options(&self, has_device_time: bool) -> TableOptions {
        let by_self_time = match has_device_time {
            true => SortKey::SelfDeviceTimeTotal,
            false => SortKey::SelfCpuTimeTotal,
        };
        TableOptions {
            sort_by: Some(self.sort_by.unwrap_or(by_self_time)),
            row_limit: self.row_limit,
            time_unit: self.time_unit,
            ..TableOptions::default()
        }
    }
}

impl TensorProfiler {
    /// How many rows the table of the report has, 20 by default; `None` for all. Values and JSON have
    /// all of them.
    #[must_use]
    pub fn row_limit(mut self, rows: impl Into<Option<usize>>) -> Self {
        self.settings.report.row_limit = rows.into();
        self
    }

    /// Sets the column that the table of the report is sorted by, the highest first. By default
    /// [`SortKey::SelfDeviceTimeTotal`] if anything was timed on a device, else
    /// [`SortKey::SelfCpuTimeTotal`]. A text such as
    /// `"calls"`, `"memory"`, or torch's `"cpu_time_total"`, becomes a key by `parse()`.
    #[must_use]
    pub fn sort_by(mut self, key: SortKey) -> Self {
        self.settings.report.sort_by = Some(key);
        self
    }

    /// The unit of all times in the table of the report; by default each has the one that suits it.
    #[must_use]
    pub fn time_unit(mut self, unit: impl Into<Option<TimeUnit>>) -> Self {
        self.settings.report.time_unit = unit.into();
        self
    }

    /// Tells rows apart by the shapes of the inputs too.
    #[must_use]
    pub fn group_by_input_shapes(mut self, groups: bool) -> Self {
        self.settings.report.group_by.input_shapes = groups;
        self
    }

    /// Tells rows apart by the `n` innermost functions, spans, actions and modules around too; 0 (the
    /// default) does not.
    #[must_use]
    pub fn group_by_stack_n(mut self, n: usize) -> Self {
        self.settings.report.group_by.stack = n;
        self
    }

    /// Tells rows apart by the innermost module around too.
    #[must_use]
    pub fn group_by_module(mut self, groups: bool) -> Self {
        self.settings.report.group_by.module = groups;
        self
    }

    /// Tells rows apart by [phase](super::Phase) too: forward, backward, optimizer, other.
    #[must_use]
    pub fn group_by_phase(mut self, groups: bool) -> Self {
        self.settings.report.group_by.phase = groups;
        self
    }

    /// What the columns of device time and memory are called, `Device` by default: `CUDA` gives
    /// torch's own `Self CUDA`, `CUDA total`, ….
    #[must_use]
    pub fn device_name(mut self, name: impl Into<String>) -> Self {
        self.settings.report.device_name = Some(name.into());
        self
    }
}
