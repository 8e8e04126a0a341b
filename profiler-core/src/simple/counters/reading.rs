//! Reading of all counters at one moment, or the difference between two readings.

use super::cpu::CpuCounters;
use super::{cpu, io};
use crate::report::simple::IoStatistics;

/// Counters of a thread at one moment, their increase between two moments, or their sum over
/// several calls. A field is `None` if it is not measured or not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) io: Option<IoStatistics>,
    pub(super) cpu: Option<CpuCounters>,
}

impl Reading {
    /// Reads the counters at the start of an action. Calls `problem` with a sentence for each
    /// counter that is unavailable.
    pub(super) fn at_start<const IO: bool, const CPU: bool>(
        mut problem: impl FnMut(String),
    ) -> Self {
        // CPU time is read last, so that the action does not include the time of the other
        // readings.
        let io = IO.then(|| known(io::read(), &mut problem)).flatten();
        let cpu = CPU.then(|| known(cpu::read_at_start(), &mut problem)).flatten();
        Self { io, cpu }
    }

    /// Reads the counters at the end of an action. Calls `problem` with a sentence for each counter
    /// that is unavailable.
    pub(super) fn at_end<const IO: bool, const CPU: bool>(mut problem: impl FnMut(String)) -> Self {
        let cpu = CPU.then(|| known(cpu::read_at_end(), &mut problem)).flatten();
        let io = IO.then(|| known(io::read(), &mut problem)).flatten();
        Self { io, cpu }
    }

    /// Returns the difference between `start` and this reading.
    pub(super) fn since(&self, start: &Self) -> Self {
        let io = self.io.zip(start.io).map(|(end, start)| end.since(&start));
        let cpu = self.cpu.zip(start.cpu).map(|(end, start)| end.since(&start));
        Self { io, cpu }
    }

    /// Adds the counters of another call.
    pub(super) fn add(&mut self, other: &Self) {
        if let Some(io) = &other.io {
            self.io.get_or_insert_default().add(io);
        }
        if let Some(cpu) = &other.cpu {
            self.cpu.get_or_insert_default().add(cpu);
        }
    }
}

fn known<T>(read: Result<T, String>, problem: &mut impl FnMut(String)) -> Option<T> {
    read.map_err(problem).ok()
}
