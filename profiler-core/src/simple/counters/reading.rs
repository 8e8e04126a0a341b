//! All that is counted, at one moment or between two.

use super::cpu::CpuCounters;
use super::{cpu, io};
use crate::report::simple::IoStatistics;

/// The counters of a thread at one moment; or how far they went between two, or in several calls
/// together. `None`: not asked for, or not known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Reading {
    pub(super) io: Option<IoStatistics>,
    pub(super) cpu: Option<CpuCounters>,
}

impl Reading {
    /// Asks for the counters at the start of an action. What cannot be known is a `problem`, in a
    /// sentence.
    pub(super) fn at_start<const IO: bool, const CPU: bool>(
        mut problem: impl FnMut(String),
    ) -> Self {
        // CPU time last, so that the action has nothing of what asking for the others took.
        let io = IO.then(|| known(io::read(), &mut problem)).flatten();
        let cpu = CPU.then(|| known(cpu::read_at_start(), &mut problem)).flatten();
        Self { io, cpu }
    }

    /// The same at the end of an action.
    pub(super) fn at_end<const IO: bool, const CPU: bool>(mut problem: impl FnMut(String)) -> Self {
        let cpu = CPU.then(|| known(cpu::read_at_end(), &mut problem)).flatten();
        let io = IO.then(|| known(io::read(), &mut problem)).flatten();
        Self { io, cpu }
    }

    /// From `start` until this moment.
    pub(super) fn since(&self, start: &Self) -> Self {
        let io = self.io.zip(start.io).map(|(end, start)| end.since(&start));
        let cpu = self.cpu.zip(start.cpu).map(|(end, start)| end.since(&start));
        Self { io, cpu }
    }

    /// Adds what was counted in another call.
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
