//! Settings for the report of the Tensor profiler.

use super::{GroupBy, TensorProfiler};
use crate::report::tensor::{SortKey, TableOptions, TimeUnit};

/// Default number of rows in the report's table, as in Lightning's `PyTorchProfiler`.
const ROWS: usize = 20;

#[derive(Debug, Clone)]
pub(super) struct ReportSettings {
    pub(super) group_by: GroupBy,
    /// Sort key. `None` means self device time if there is device time, otherwise self host time.
    pub(super) sort_by: Option<SortKey>,
    pub(super) row_limit: Option<usize>,
    pub(super) time_unit: Option<TimeUnit>,
    /// Device name in column titles. `None` means the name from the devices' hook.
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
    /// Returns the device name for column titles.
    pub(super) fn device_name(&self) -> String {
        let name = self.device_name.clone().or_else(mlprof_events::platform);
        name.unwrap_or_else(|| "Device".to_owned())
    }

    /// Returns the format options of the report's table.
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
    /// Limits the number of rows in the report's table. The default is 20, and `None` shows all
    /// rows. Values and JSON always contain all rows.
    #[must_use]
    pub fn row_limit(mut self, rows: impl Into<Option<usize>>) -> Self {
        self.settings.report.row_limit = rows.into();
        self
    }

    /// Sets the sort column of the report's table, in descending order. The default is
    /// [`SortKey::SelfDeviceTimeTotal`] if any device time was measured, otherwise
    /// [`SortKey::SelfCpuTimeTotal`]. `parse()` converts texts such as `"calls"`, `"memory"` or
    /// torch's `"cpu_time_total"` into a key.
    #[must_use]
    pub fn sort_by(mut self, key: SortKey) -> Self {
        self.settings.report.sort_by = Some(key);
        self
    }

    /// Sets one unit for all times in the report's table. By default each time has a suitable unit.
    #[must_use]
    pub fn time_unit(mut self, unit: impl Into<Option<TimeUnit>>) -> Self {
        self.settings.report.time_unit = unit.into();
        self
    }

    /// Enables or disables grouping of rows by input shapes.
    #[must_use]
    pub fn group_by_input_shapes(mut self, groups: bool) -> Self {
        self.settings.report.group_by.input_shapes = groups;
        self
    }

    /// Also groups rows by the `n` innermost enclosing functions, spans, actions and modules. The
    /// default, 0, disables this.
    #[must_use]
    pub fn group_by_stack_n(mut self, n: usize) -> Self {
        self.settings.report.group_by.stack = n;
        self
    }

    /// Enables or disables grouping of rows by the innermost enclosing module.
    #[must_use]
    pub fn group_by_module(mut self, groups: bool) -> Self {
        self.settings.report.group_by.module = groups;
        self
    }

    /// Enables or disables grouping of rows by [phase](super::Phase): forward, backward, optimizer
    /// or other.
    #[must_use]
    pub fn group_by_phase(mut self, groups: bool) -> Self {
        self.settings.report.group_by.phase = groups;
        self
    }

    /// Sets the name in the column titles of device time and memory. The default is `Device`.
    /// `CUDA` gives torch's titles such as `Self CUDA` and `CUDA total`.
    #[must_use]
    pub fn device_name(mut self, name: impl Into<String>) -> Self {
        self.settings.report.device_name = Some(name.into());
        self
    }
}
