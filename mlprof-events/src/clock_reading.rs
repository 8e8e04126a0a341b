//! Simultaneous readings of the machine's clocks, used to align the time lines of several
//! processes.

use std::time::SystemTime;

use crate::Timestamp;
use crate::clock;

/// Values of several clocks at one moment. Processes of one machine share its monotonic clock.
/// Their readings of it therefore relate their time lines, even if the wall clock is set meanwhile.
///
/// *Cost* of a [reading](Self::now): about 0.5 µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// Moment of the reading, on the clock of events.
    pub time: Timestamp,
    /// Wall clock, in nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub realtime: i64,
    /// Monotonic clock in nanoseconds (`CLOCK_MONOTONIC`); `None` if the system has none that all
    /// processes share.
    pub monotonic: Option<i64>,
    /// Monotonic clock that also runs while the machine is suspended, in nanoseconds
    /// (`CLOCK_BOOTTIME`); `None` on systems other than Linux.
    pub boottime: Option<i64>,
    /// Duration of the whole reading, in ticks of the clock of events. `time` may be wrong by half
    /// of it.
    pub ticks_apart: u64,
}

/// Number of attempts to read the clocks, because the system may preempt the thread between two
/// readings.
const ATTEMPTS: usize = 5;

impl ClockReading {
    /// Reads the clocks several times and returns the closest reading.
    pub fn now() -> Self {
        let readings = (0..ATTEMPTS).map(|_| Self::read());
        let closest = readings.min_by_key(|reading| reading.ticks_apart);
        closest.unwrap_or_else(Self::read)
    }

    fn read() -> Self {
        let before = clock::ticks();
        let (realtime, monotonic, boottime) = (realtime(), monotonic(), boottime());
        let ticks_apart = clock::ticks().saturating_sub(before);
        let time = Timestamp::from_ticks(before + ticks_apart / 2);
        Self { time, realtime, monotonic, boottime, ticks_apart }
    }
}

fn realtime() -> i64 {
    let since = clock::wall_time().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_nanos()).unwrap_or(0)
}

#[cfg(unix)]
fn monotonic() -> Option<i64> {
    read(libc::CLOCK_MONOTONIC)
}

#[cfg(not(unix))]
fn monotonic() -> Option<i64> {
    None
}

#[cfg(target_os = "linux")]
fn boottime() -> Option<i64> {
    read(libc::CLOCK_BOOTTIME)
}

#[cfg(not(target_os = "linux"))]
fn boottime() -> Option<i64> {
    None
}

/// Reads a clock of the operating system, in nanoseconds.
#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Option<i64> {
    i64::try_from(clock::read(clock)?.as_nanos()).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock::Rate;

    /// Checks that all clocks advance by the same time, within the uncertainty of the readings.
    #[test]
    fn clocks_agree_on_how_much_time_has_passed() {
        let first = ClockReading::now();
        let rate = Rate::measured();
        let last = ClockReading::now();
        let passed = rate.nanoseconds(last.time.ticks() - first.time.ticks()) as i64;
        let apart = rate.nanoseconds(first.ticks_apart + last.ticks_apart) as i64;
        // The rate is known to a millionth; the test allows a thousandth.
        let allowed = apart + passed / 1000 + 1000;
        let close = |first: i64, last: i64| (last - first - passed).abs() <= allowed;
        for (first, last) in [(first.monotonic, last.monotonic), (first.boottime, last.boottime)] {
            if let (Some(first), Some(last)) = (first, last) {
                assert!(close(first, last), "{} for {passed} ns", last - first);
            }
        }
        #[cfg(target_os = "linux")]
        assert!(first.monotonic.is_some() && first.boottime >= first.monotonic);
    }
}
