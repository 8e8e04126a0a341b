//! Samples of a device's own counters: utilisation, memory, power and others.

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// A device quantity that can be read at any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceCounter {
    /// Share of the preceding time in which a kernel ran, in percent. A kernel that runs on one of
    /// a device's many cores counts as much as one that runs on all of them.
    GpuUtilization,
    /// Share of the preceding time in which the device's memory was read or written, in percent.
    MemoryUtilization,
    /// Memory in use by all processes, in bytes.
    MemoryUsed,
    /// Power draw in watts.
    Power,
    /// Temperature in degrees Celsius.
    Temperature,
    /// Clock frequency of the streaming multiprocessors in MHz.
    SmClock,
    /// Clock frequency of the memory in MHz.
    MemoryClock,
}

impl DeviceCounter {
    /// All counters, in the order in which reports show them.
    #[doc(hidden)]
    pub const ALL: [Self; 7] = [
        Self::GpuUtilization,
        Self::MemoryUtilization,
        Self::MemoryUsed,
        Self::Power,
        Self::Temperature,
        Self::SmClock,
        Self::MemoryClock,
    ];

    /// Returns the counter's name in traces: `utilization`, `memory used`, …
    #[doc(hidden)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::GpuUtilization => "utilization",
            Self::MemoryUtilization => "memory utilization",
            Self::MemoryUsed => "memory used",
            Self::Power => "power",
            Self::Temperature => "temperature",
            Self::SmClock => "SM clock",
            Self::MemoryClock => "memory clock",
        }
    }

    /// Returns the unit of the counter's values: `%`, `bytes`, `W`, `°C` or `MHz`.
    #[doc(hidden)]
    pub const fn unit(self) -> &'static str {
        match self {
            Self::GpuUtilization | Self::MemoryUtilization => "%",
            Self::MemoryUsed => "bytes",
            Self::Power => "W",
            Self::Temperature => "°C",
            Self::SmClock | Self::MemoryClock => "MHz",
        }
    }
}

/// Value of one counter of one device at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterSample {
    /// Time of the reading. Counters that were read together have the same time.
    pub time: Timestamp,
    /// Index of the device, counted from 0, as for [`DeviceEvent`](super::DeviceEvent::device).
    pub device: u32,
    /// The counter.
    pub counter: DeviceCounter,
    /// Value in the counter's [unit](DeviceCounter::unit).
    pub value: f64,
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn every_counter_has_a_name_of_its_own_and_is_read_as_it_was_written() {
        for (position, counter) in DeviceCounter::ALL.into_iter().enumerate() {
            let others = &DeviceCounter::ALL[position + 1..];
            assert!(others.iter().all(|other| other.name() != counter.name()));
            let json = serde_json::to_string(&counter).expect("JSON");
            assert_eq!(serde_json::from_str::<DeviceCounter>(&json).expect("a counter"), counter);
        }
        let json = serde_json::to_string(&DeviceCounter::SmClock).expect("JSON");
        assert_eq!(json, "\"sm_clock\"");
    }
}
