//! Options and sort keys of the table of ops.

use crate::Error;
use std::str::FromStr;

use crate::tensor::KeyAverage;

/// Options for rendering a table. The defaults are those of torch.
///
/// ```
/// use mlprof_core::report::tensor::{SortKey, TableOptions};
///
/// let options = TableOptions {
///     sort_by: Some("self_cpu_time_total".parse()?),
///     row_limit: None,
///     ..TableOptions::default()
/// };
/// assert_eq!(options.sort_by, Some(SortKey::SelfCpuTimeTotal));
/// # Ok::<(), mlprof_core::report::Error>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableOptions {
    /// Sort key, in descending order. `None` keeps the order in which the rows first ran.
    pub sort_by: Option<SortKey>,
    /// Maximum number of rows. `None` for all rows.
    pub row_limit: Option<usize>,
    /// Maximum width of names and modules, in characters. `None` for no limit.
    pub max_name_column_width: Option<usize>,
    /// Maximum width of shapes, in characters. `None` for no limit.
    pub max_shapes_column_width: Option<usize>,
    /// Maximum width of source locations, in characters. `None` for no limit.
    pub max_src_column_width: Option<usize>,
    /// Shows only rows without an enclosing scope.
    pub top_level_events_only: bool,
    /// Title above the table.
    pub header: Option<String>,
    /// Adds a column with the achieved FLOP/s, if there are FLOPs. torch has no such column.
    pub flops_per_second: bool,
    /// Adds columns with the bytes that ops read and write at least, with the achieved rate, and
    /// with FLOPs per byte, if bytes are known. A report omits them if it has no room for them.
    /// torch has no such columns.
    pub bytes: bool,
    /// Unit of all times. `None` selects the unit for each value.
    pub time_unit: Option<TimeUnit>,
}

/// A unit of time, written as `ns`, `us`, `ms` or `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    /// Returns the number of microseconds in this unit.
    pub(super) const fn microseconds(self) -> f64 {
        match self {
            Self::Nanoseconds => 1e-3,
            Self::Microseconds => 1.0,
            Self::Milliseconds => 1e3,
            Self::Seconds => 1e6,
        }
    }

    /// Returns the suffix after a number.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Nanoseconds => "ns",
            Self::Microseconds => "us",
            Self::Milliseconds => "ms",
            Self::Seconds => "s",
        }
    }
}

impl Default for TableOptions {
    fn default() -> Self {
        Self {
            sort_by: None,
            row_limit: Some(100),
            max_name_column_width: Some(55),
            max_shapes_column_width: Some(80),
            max_src_column_width: Some(75),
            top_level_events_only: false,
            header: None,
            flops_per_second: true,
            bytes: true,
            time_unit: None,
        }
    }
}

/// Sort keys of the table. They are written as in torch, and `cuda` and `xpu` are read as `device`.
/// The short names are `calls`, `mean`, `total`, `self`, `memory` and `flops`. `mean`, `total` and
/// `self` refer to host time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SortKey {
    /// `cpu_time`: mean host time of a call.
    CpuTime,
    /// `device_time`: mean device time of a call.
    DeviceTime,
    /// `cpu_time_total`: total host time.
    CpuTimeTotal,
    /// `device_time_total`: total device time.
    DeviceTimeTotal,
    /// `self_cpu_time_total`: self host time.
    SelfCpuTimeTotal,
    /// `self_device_time_total`: self device time.
    SelfDeviceTimeTotal,
    /// `cpu_memory_usage`: host memory allocated minus freed.
    CpuMemoryUsage,
    /// `device_memory_usage`: accelerator memory allocated minus freed.
    DeviceMemoryUsage,
    /// `self_cpu_memory_usage`: host memory allocated minus freed, without nested calls.
    SelfCpuMemoryUsage,
    /// `self_device_memory_usage`: accelerator memory allocated minus freed, without nested calls.
    SelfDeviceMemoryUsage,
    /// `count`: number of calls.
    Count,
    /// `memory`: memory allocated minus freed by itself, on the host and on accelerators.
    Memory,
    /// `flops`: floating-point operations.
    Flops,
}

impl SortKey {
    /// All sort keys.
    #[doc(hidden)]
    pub const ALL: [Self; 13] = [
        Self::CpuTime,
        Self::DeviceTime,
        Self::CpuTimeTotal,
        Self::DeviceTimeTotal,
        Self::SelfCpuTimeTotal,
        Self::SelfDeviceTimeTotal,
        Self::CpuMemoryUsage,
        Self::DeviceMemoryUsage,
        Self::SelfCpuMemoryUsage,
        Self::SelfDeviceMemoryUsage,
        Self::Count,
        Self::Memory,
        Self::Flops,
    ];

    /// Returns the key's name in torch's notation.
    #[doc(hidden)]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::CpuTime => "cpu_time",
            Self::DeviceTime => "device_time",
            Self::CpuTimeTotal => "cpu_time_total",
            Self::DeviceTimeTotal => "device_time_total",
            Self::SelfCpuTimeTotal => "self_cpu_time_total",
            Self::SelfDeviceTimeTotal => "self_device_time_total",
            Self::CpuMemoryUsage => "cpu_memory_usage",
            Self::DeviceMemoryUsage => "device_memory_usage",
            Self::SelfCpuMemoryUsage => "self_cpu_memory_usage",
            Self::SelfDeviceMemoryUsage => "self_device_memory_usage",
            Self::Count => "count",
            Self::Memory => "memory",
            Self::Flops => "flops",
        }
    }

    pub(super) fn of(self, row: &KeyAverage) -> f64 {
        match self {
            Self::CpuTime => row.mean_cpu_seconds(),
            Self::DeviceTime => row.mean_device_seconds(),
            Self::CpuTimeTotal => row.cpu_seconds,
            Self::DeviceTimeTotal => row.device_seconds,
            Self::SelfCpuTimeTotal => row.self_cpu_seconds,
            Self::SelfDeviceTimeTotal => row.self_device_seconds,
            Self::CpuMemoryUsage => row.cpu_memory_bytes as f64,
            Self::DeviceMemoryUsage => row.device_memory_bytes as f64,
            Self::SelfCpuMemoryUsage => row.self_cpu_memory_bytes as f64,
            Self::SelfDeviceMemoryUsage => row.self_device_memory_bytes as f64,
            Self::Count => row.calls as f64,
            Self::Memory => {
                row.self_cpu_memory_bytes.saturating_add(row.self_device_memory_bytes) as f64
            }
            Self::Flops => row.flops as f64,
        }
    }
}

impl FromStr for SortKey {
    type Err = Error;

    fn from_str(key: &str) -> Result<Self, Error> {
        let plain = key.trim().to_ascii_lowercase();
        let plain = plain.replace("cuda", "device").replace("xpu", "device");
        let plain = match plain.as_str() {
            "calls" => "count",
            "mean" => "cpu_time",
            "total" => "cpu_time_total",
            "self" => "self_cpu_time_total",
            plain => plain,
        };
        let known = Self::ALL.into_iter().find(|known| known.as_str() == plain);
        known.ok_or_else(|| {
            let choices = Self::ALL.map(|known| format!("{:?}", known.as_str())).join(", ");
            Error::UnknownSortKey {
                rows: "a table",
                key: key.to_owned(),
                choices: format!(r#""calls", "mean", "total", "self" or one of {choices}"#),
            }
        })
    }
}
