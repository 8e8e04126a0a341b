//! How a table is painted, and what it can be sorted by.

use crate::Error;
use std::str::FromStr;

use crate::tensor::KeyAverage;

/// How a table is painted. The defaults are torch's.
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
    /// The column to sort by, the highest first; `None` keeps the order in which the rows first ran.
    pub sort_by: Option<SortKey>,
    /// How many rows; `None` for all.
    pub row_limit: Option<usize>,
    /// The width at which names (and modules) are cut; `None` for no limit.
    pub max_name_column_width: Option<usize>,
    /// The width at which shapes are cut; `None` for no limit.
    pub max_shapes_column_width: Option<usize>,
    /// The width at which places in the source are cut; `None` for no limit.
    pub max_src_column_width: Option<usize>,
    /// Only rows that had nothing around them.
    pub top_level_events_only: bool,
    /// A title.
    pub header: Option<String>,
    /// A column with the achieved FLOP/s, where there are FLOPs. torch has none.
    pub flops_per_second: bool,
    /// The unit of all times; `None` gives each the one that suits it.
    pub time_unit: Option<TimeUnit>,
}

/// A unit of time, as text `ns`, `us`, `ms` or `s`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum TimeUnit {
    Nanoseconds,
    Microseconds,
    Milliseconds,
    Seconds,
}

impl TimeUnit {
    /// How many microseconds one is.
    pub(super) const fn microseconds(self) -> f64 {
        match self {
            Self::Nanoseconds => 1e-3,
            Self::Microseconds => 1.0,
            Self::Milliseconds => 1e3,
            Self::Seconds => 1e6,
        }
    }

    /// As it stands behind a number.
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
            time_unit: None,
        }
    }
}

/// What a table can be sorted by. As text in torch's words, in which `cuda` and `xpu` are read as
/// `device`, or in short: `calls`, `mean`, `total`, `self` (those three of host time), `memory`, `flops`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum SortKey {
    /// `cpu_time`: mean host time of a call.
    CpuTime,
    /// `device_time`: mean device time of a call.
    DeviceTime,
    /// `cpu_time_total`.
    CpuTimeTotal,
    /// `device_time_total`.
    DeviceTimeTotal,
    /// `self_cpu_time_total`.
    SelfCpuTimeTotal,
    /// `self_device_time_total`.
    SelfDeviceTimeTotal,
    /// `cpu_memory_usage`.
    CpuMemoryUsage,
    /// `device_memory_usage`.
    DeviceMemoryUsage,
    /// `self_cpu_memory_usage`.
    SelfCpuMemoryUsage,
    /// `self_device_memory_usage`.
    SelfDeviceMemoryUsage,
    /// `count`: calls.
    Count,
    /// `memory`: what it allocated itself less what it freed, on the host and on accelerators.
    Memory,
    /// `flops`: floating-point operations.
    Flops,
}

impl SortKey {
    /// All keys.
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

    /// The key as torch writes it.
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
