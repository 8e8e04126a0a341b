//! The operating system's counters of CPU time and of switches, for the calling thread and process.

use crate::report::simple::{CpuStatistics, CpuStatisticsParts};

/// CPU time in nanoseconds, and how often the thread lost its core.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuCounters {
    /// Of the calling thread.
    thread: u64,
    /// Of all threads of the process.
    process: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

impl CpuCounters {
    /// From `start` until this moment.
    pub(super) fn since(&self, start: &Self) -> Self {
        Self {
            thread: self.thread.saturating_sub(start.thread),
            process: self.process.saturating_sub(start.process),
            voluntary_switches: self.voluntary_switches.saturating_sub(start.voluntary_switches),
            involuntary_switches: self
                .involuntary_switches
                .saturating_sub(start.involuntary_switches),
        }
    }

    /// Adds what was counted in another call.
    pub(super) fn add(&mut self, other: &Self) {
        self.thread += other.thread;
        self.process += other.process;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }

    /// The same for a report.
    pub(super) fn statistics(&self) -> CpuStatistics {
        let seconds = |nanoseconds: u64| nanoseconds as f64 / 1e9;
        CpuStatisticsParts {
            thread_seconds: seconds(self.thread),
            process_seconds: seconds(self.process),
            voluntary_switches: self.voluntary_switches,
            involuntary_switches: self.involuntary_switches,
        }
        .build()
    }
}

#[cfg(target_os = "linux")]
pub(super) use linux::{read_at_end, read_at_start};

#[cfg(not(target_os = "linux"))]
pub(super) fn read_at_start() -> Result<CpuCounters, String> {
    Err("CPU time per action can be measured on Linux only".to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(super) use read_at_start as read_at_end;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::mem::MaybeUninit;

    use super::CpuCounters;

    /// The thread's own time is read last, so that an action has as little of the reading as can be.
    pub(in crate::simple::counters) fn read_at_start() -> Result<CpuCounters, String> {
        let (voluntary_switches, involuntary_switches) = switches()?;
        let process = nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)?;
        let thread = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)?;
        Ok(CpuCounters { thread, process, voluntary_switches, involuntary_switches })
    }

    /// The thread's own time is read first.
    pub(in crate::simple::counters) fn read_at_end() -> Result<CpuCounters, String> {
        let thread = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)?;
        let process = nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)?;
        let (voluntary_switches, involuntary_switches) = switches()?;
        Ok(CpuCounters { thread, process, voluntary_switches, involuntary_switches })
    }

    fn nanoseconds(clock: libc::clockid_t) -> Result<u64, String> {
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: the pointer is valid for writing a `timespec`.
        if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
            return Err(explain("clock_gettime"));
        }
        // SAFETY: the call succeeded, so it has been written.
        let time = unsafe { time.assume_init() };
        Ok(counter(time.tv_sec) * 1_000_000_000 + counter(time.tv_nsec))
    }

    /// Voluntary and involuntary ones of the calling thread.
    fn switches() -> Result<(u64, u64), String> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: the pointer is valid for writing a `rusage`.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
            return Err(explain("getrusage"));
        }
        // SAFETY: the call succeeded, so it has been written.
        let usage = unsafe { usage.assume_init() };
        Ok((counter(usage.ru_nvcsw), counter(usage.ru_nivcsw)))
    }

    /// What the system counts is not below 0.
    fn counter(number: impl TryInto<u64>) -> u64 {
        number.try_into().unwrap_or(0)
    }

    fn explain(call: &str) -> String {
        format!("CPU time is not complete: {call} failed: {}", io::Error::last_os_error())
    }
}
