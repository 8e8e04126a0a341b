//! CPU time and context switches of the calling thread and process, as counted by the operating
//! system.

use crate::report::simple::{CpuStatistics, CpuStatisticsParts};

/// CPU time in nanoseconds and numbers of context switches.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct CpuCounters {
    /// CPU time of the calling thread in nanoseconds.
    thread: u64,
    /// CPU time of all threads of the process in nanoseconds.
    process: u64,
    voluntary_switches: u64,
    involuntary_switches: u64,
}

impl CpuCounters {
    /// Returns the difference between `start` and this reading.
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

    /// Adds the counters of another call.
    pub(super) fn add(&mut self, other: &Self) {
        self.thread += other.thread;
        self.process += other.process;
        self.voluntary_switches += other.voluntary_switches;
        self.involuntary_switches += other.involuntary_switches;
    }

    /// Returns the counters in the form of a report, with times in seconds.
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
    Err("CPU time per action requires Linux".to_owned())
}

#[cfg(not(target_os = "linux"))]
pub(super) use read_at_start as read_at_end;

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::mem::MaybeUninit;

    use super::CpuCounters;

    /// Reads the counters at the start of an action. It reads the thread's own time last, so that
    /// the action includes as little of the reading as possible.
    pub(in crate::simple::counters) fn read_at_start() -> Result<CpuCounters, String> {
        let (voluntary_switches, involuntary_switches) = switches()?;
        let process = nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)?;
        let thread = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)?;
        Ok(CpuCounters { thread, process, voluntary_switches, involuntary_switches })
    }

    /// Reads the counters at the end of an action. It reads the thread's own time first.
    pub(in crate::simple::counters) fn read_at_end() -> Result<CpuCounters, String> {
        let thread = nanoseconds(libc::CLOCK_THREAD_CPUTIME_ID)?;
        let process = nanoseconds(libc::CLOCK_PROCESS_CPUTIME_ID)?;
        let (voluntary_switches, involuntary_switches) = switches()?;
        Ok(CpuCounters { thread, process, voluntary_switches, involuntary_switches })
    }

    fn nanoseconds(clock: libc::clockid_t) -> Result<u64, String> {
        let mut time = MaybeUninit::<libc::timespec>::uninit();
        // SAFETY: `time` is a local `timespec`, so the pointer is aligned and valid for writes.
        if unsafe { libc::clock_gettime(clock, time.as_mut_ptr()) } != 0 {
            return Err(explain("clock_gettime"));
        }
        // SAFETY: the call succeeded, so the system has initialised `time`.
        let time = unsafe { time.assume_init() };
        Ok(counter(time.tv_sec) * 1_000_000_000 + counter(time.tv_nsec))
    }

    /// Returns the voluntary and involuntary context switches of the calling thread.
    fn switches() -> Result<(u64, u64), String> {
        let mut usage = MaybeUninit::<libc::rusage>::uninit();
        // SAFETY: `usage` is a local `rusage`, so the pointer is aligned and valid for writes.
        if unsafe { libc::getrusage(libc::RUSAGE_THREAD, usage.as_mut_ptr()) } != 0 {
            return Err(explain("getrusage"));
        }
        // SAFETY: the call succeeded, so the system has initialised `usage`.
        let usage = unsafe { usage.assume_init() };
        Ok((counter(usage.ru_nvcsw), counter(usage.ru_nivcsw)))
    }

    /// Converts a system counter, which is never negative.
    fn counter(number: impl TryInto<u64>) -> u64 {
        number.try_into().unwrap_or(0)
    }

    fn explain(call: &str) -> String {
        format!("CPU time is incomplete: {call} failed: {}", io::Error::last_os_error())
    }
}
