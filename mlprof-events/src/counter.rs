//! What a device says of itself now and then: how busy it is, its memory, its power.

use serde::{Deserialize, Serialize};

use super::Timestamp;

/// Something that a device can be asked for at any moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DeviceCounter {
    /// The share of the time just before in which a kernel ran, in percent. What runs on one of many
    /// cores of a device counts as much as what runs on all.
    GpuUtilization,
    /// The share of the time just before in which the device's memory was read or written, in
    /// percent.
    MemoryUtilization,
    /// Memory that is taken, by whatever process, in bytes.
    MemoryUsed,
    /// What the device draws, in watts.
    Power,
    /// How warm it is, in degrees Celsius.
    Temperature,
    /// The clock of what computes, in MHz.
    SmClock,
    /// The clock of the memory, in MHz.
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

    /// What it is called in traces: `utilization`, `memory used`, …
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

    /// What its values are counted in: `%`, `bytes`, `W`, `°C` or `MHz`.
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

/// One counter of one device at one moment.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct CounterSample {
    /// When it was read. Counters that were read together have the same time.
    pub time: Timestamp,
    /// Which device, counted from 0, as for [`DeviceEvent`](super::DeviceEvent::device).
    pub device: u32,
    /// Which counter.
    pub counter: DeviceCounter,
    /// What it showed, in the counter's [unit](DeviceCounter::unit).
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
