//! Readings of the operating system's clocks together with the counter.

use std::time::{Duration, SystemTime};

#[cfg(any(miri, not(unix)))]
use super::system::Stopwatch;
use super::system::wall_time;

/// Values of the counter and the clocks at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Reading {
    /// Counter in ticks.
    pub(super) ticks: u64,
    /// Clock that stops while the machine is suspended, counted from an arbitrary moment.
    pub(super) awake: Duration,
    /// Clock with the same origin that also runs while the machine is suspended; `None` if the
    /// system has none.
    pub(super) total: Option<Duration>,
    /// Wall clock.
    pub(super) wall: SystemTime,
}

impl Reading {
    /// Reads all clocks `attempts` times and keeps the closest readings.
    pub(super) fn now(counter: impl Fn() -> u64, attempts: usize) -> Self {
        let clocks = || (awake(), total(), wall_time());
        let (ticks, (awake, total, wall)) = read_together(counter, clocks, attempts);
        Self { ticks, awake, total, wall }
    }

    /// Returns how long the machine was suspended between an earlier reading and this one.
    pub(super) fn suspended_since(&self, earlier: &Self) -> Duration {
        let asleep = |reading: &Self| Some(reading.total?.saturating_sub(reading.awake));
        match (asleep(earlier), asleep(self)) {
            (Some(before), Some(now)) => now.saturating_sub(before),
            _ => Duration::ZERO,
        }
    }
}

/// Reads the counter and the clocks at one moment, and returns the closest of several attempts. The
/// system may preempt the thread between two readings, for as long as the span over which a rate is
/// measured.
pub(super) fn read_together<T>(
    counter: impl Fn() -> u64,
    clocks: impl Fn() -> T,
    attempts: usize,
) -> (u64, T) {
    let attempt = || {
        let before = counter();
        let clocks = clocks();
        let apart = counter().saturating_sub(before);
        (apart, before + apart / 2, clocks)
    };
    let (_, ticks, clocks) = (1..attempts)
        .map(|_| attempt())
        .fold(attempt(), |best, next| if next.0 < best.0 { next } else { best });
    (ticks, clocks)
}

#[cfg(all(unix, not(miri)))]
fn awake() -> Duration {
    // `Instant` reads the same clock.
    #[cfg(target_vendor = "apple")]
    let clock = libc::CLOCK_UPTIME_RAW;
    #[cfg(not(target_vendor = "apple"))]
    let clock = libc::CLOCK_MONOTONIC;
    read(clock).unwrap_or_default()
}

#[cfg(any(miri, not(unix)))]
fn awake() -> Duration {
    static FIRST: std::sync::OnceLock<Stopwatch> = std::sync::OnceLock::new();
    FIRST.get_or_init(Stopwatch::start).elapsed()
}

#[cfg(all(not(miri), any(target_os = "linux", target_vendor = "apple")))]
fn total() -> Option<Duration> {
    #[cfg(target_os = "linux")]
    let clock = libc::CLOCK_BOOTTIME;
    // Apple's clock of this name also runs while the machine is suspended.
    #[cfg(target_vendor = "apple")]
    let clock = libc::CLOCK_MONOTONIC_RAW;
    read(clock)
}

#[cfg(not(all(not(miri), any(target_os = "linux", target_vendor = "apple"))))]
fn total() -> Option<Duration> {
    None
}

/// Reads a clock of the operating system. Returns `None` if the system has no such clock.
#[cfg(unix)]
pub(crate) fn read(clock: libc::clockid_t) -> Option<Duration> {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `time` is a valid `timespec` that outlives the call, and the call writes only to it.
    let result = unsafe { libc::clock_gettime(clock, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).ok()?;
    let nanoseconds = u32::try_from(time.tv_nsec).ok()?;
    (result == 0).then_some(Duration::new(seconds, nanoseconds))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    /// Checks that an attempt is discarded if the thread was preempted between its readings.
    #[test]
    fn a_reading_that_was_interrupted_does_not_count() {
        let time = std::cell::Cell::new(1_000_u64);
        let pass = |ticks| time.replace(time.get() + ticks);
        for interrupted in 0..3 {
            time.set(1_000);
            let attempt = std::cell::Cell::new(0);
            let clock = || {
                let now = pass(2);
                if attempt.replace(attempt.get() + 1) == interrupted {
                    pass(1_000_000);
                }
                Duration::from_nanos(now)
            };
            let (ticks, elapsed) = read_together(|| pass(2), clock, 3);
            let apart = ticks.abs_diff(u64::try_from(elapsed.as_nanos()).expect("small"));
            assert!(apart <= 2, "{ticks} ticks at {elapsed:?}, interrupted at {interrupted}");
        }
    }

    #[test]
    fn time_suspended_is_what_one_clock_has_more_than_the_other() {
        let reading = |awake, total: Option<u64>| Reading {
            ticks: 0,
            awake: Duration::from_secs(awake),
            total: total.map(Duration::from_secs),
            wall: SystemTime::UNIX_EPOCH,
        };
        let first = reading(100, Some(150));
        let suspended = |awake, total| reading(awake, total).suspended_since(&first).as_secs();
        assert_eq!(suspended(110, Some(160)), 0);
        assert_eq!(suspended(110, Some(463)), 303);
        assert_eq!(suspended(110, None), 0, "no second clock");
        assert_eq!(suspended(110, Some(140)), 0, "restored on a machine that started later");
    }
}
