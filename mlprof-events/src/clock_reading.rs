//! What the machine's clocks show at one moment: what puts the time lines of several processes together.

use std::time::SystemTime;

use crate::Timestamp;
use crate::clock;

/// What several clocks showed at one moment. Processes of one machine share its monotonic clock, so what
/// each of them has read of it relates their time lines, however the wall clock was set meanwhile.
///
/// *Cost* of a [reading](Self::now): some 0.5 µs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockReading {
    /// The moment, by the clock of events.
    pub time: Timestamp,
    /// The wall clock, in nanoseconds since 1970 (`CLOCK_REALTIME`).
    pub realtime: i64,
    /// The clock that nobody sets, in nanoseconds (`CLOCK_MONOTONIC`); `None` where there is none that all
    /// processes share.
    pub monotonic: Option<i64>,
    /// The same, going on while the machine sleeps (`CLOCK_BOOTTIME`); `None` but on Linux.
    pub boottime: Option<i64>,
    /// From before the first of them was read until after the last, in ticks of the clock of events: by half
    /// of it `time` may be wrong.
    pub ticks_apart: u64,
}

/// How often the clocks are read: the processor may be taken away between two readings.
const ATTEMPTS: usize = 5;

impl ClockReading {
    /// The closest of several readings.
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

/// A clock of the operating system's in nanoseconds.
#[cfg(unix)]
fn read(clock: libc::clockid_t) -> Option<i64> {
    i64::try_from(clock::read(clock)?.as_nanos()).ok()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::clock::Rate;

    /// All clocks go on by the same time, up to what lies between the readings.
    #[test]
    fn clocks_agree_on_how_much_time_has_passed() {
        let first = ClockReading::now();
        let rate = Rate::measured();
        let last = ClockReading::now();
        let passed = rate.nanoseconds(last.time.ticks() - first.time.ticks()) as i64;
        let apart = rate.nanoseconds(first.ticks_apart + last.ticks_apart) as i64;
        // A millionth: how well the rate is known.
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
