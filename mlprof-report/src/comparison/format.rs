//! Texts of comparisons.

use super::series::TRACE;
use super::{Subject, Unit, Verdict};
use crate::number::{bytes, duration, grouped};

impl Subject {
    /// Returns the title above a table.
    pub fn title(self) -> &'static str {
        match self {
            Self::Run => "The run",
            Self::Steps => "Steps",
            Self::Actions => "Actions",
            Self::ActionsOnDevice => "Actions, device time",
            Self::DeviceRegions => "Device regions",
            Self::Ops => "Ops, host time",
            Self::Kernels => "Ops and kernels, device time",
            Self::Modules => "Modules, host time",
            Self::ModulesOnDevice => "Modules, device time",
            Self::Functions => "Functions",
            Self::Lines => "Functions with lines",
            Self::Memory => "Memory allocated",
            Self::Peak => "Peak memory",
            Self::Blocks => "Blocks allocated",
        }
    }

    pub(super) const fn unit(self) -> Unit {
        match self {
            Self::Memory | Self::Peak => Unit::Bytes,
            Self::Blocks => Unit::Count,
            _ => Unit::Seconds,
        }
    }

    /// Returns the statistic that the numbers of a report show, by the kind of its profiler.
    pub(super) fn per(self, profiler: &str) -> &'static str {
        match (self, profiler) {
            (Self::Run, _) => "as a whole",
            (Self::Steps | Self::Actions, TRACE) => "the median of steps that have it",
            (_, TRACE) => "self values, the median of steps that have it",
            (Self::Steps, _) => "the median of steps",
            (Self::Actions, "Simple") => "the median of calls without the first one",
            (Self::Actions | Self::Memory, "Tensor") => "the mean of recorded steps",
            (Self::Actions | Self::ActionsOnDevice | Self::DeviceRegions | Self::Lines, _) => {
                "the mean of calls"
            }
            (Self::Functions | Self::Memory | Self::Blocks, _) => "self values, the mean of calls",
            (Self::Ops | Self::Kernels | Self::Modules | Self::ModulesOnDevice, _) => {
                "self values, the mean of recorded steps"
            }
            (Self::Peak, _) => "the call with the highest peak",
        }
    }

    /// Returns `true` if the numbers are per call, so that the number of calls also counts.
    pub(super) const fn is_of_calls(self) -> bool {
        match self {
            Self::Actions | Self::ActionsOnDevice | Self::DeviceRegions => true,
            Self::Functions | Self::Lines => true,
            Self::Memory | Self::Blocks => true,
            Self::Run | Self::Steps | Self::Peak | Self::Ops | Self::Kernels => false,
            Self::Modules | Self::ModulesOnDevice => false,
        }
    }
}

impl Unit {
    /// Formats a number in this unit, as in tables.
    pub fn write(self, number: f64) -> String {
        match self {
            Self::Seconds => duration(number),
            Self::Bytes => bytes(number.max(0.0).round() as u64),
            Self::Count => grouped(number.max(0.0).round() as u64),
        }
    }
}

impl Verdict {
    /// Returns the verdict in one word, for rows in this unit.
    pub fn word(self, unit: Unit) -> &'static str {
        match (self, unit) {
            (Self::Worse, Unit::Seconds) => "slower",
            (Self::Worse, _) => "more",
            (Self::Better, Unit::Seconds) => "faster",
            (Self::Better, _) => "less",
            (Self::OnlyAfter, _) => "only after",
            (Self::OnlyBefore, _) => "only before",
            (Self::Same, _) => "same",
            (Self::TooFew, _) => "too few calls",
            (Self::Unknown, _) => "not known",
        }
    }
}
