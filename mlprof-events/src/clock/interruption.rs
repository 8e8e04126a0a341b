//! Time spans in which the counter and the clock did not advance together.

use std::fmt;
use std::time::{Duration, SystemTime};

use super::readings::Reading;

/// Shortest difference that counts as a suspension. Two clocks that are read one after the other
/// differ by less.
const SHORTEST_SUSPENSION: Duration = Duration::from_millis(100);

/// Behaviour of the counter during an interruption.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Counter {
    /// The machine was suspended, and the counter kept running.
    WentOn,
    /// The machine was suspended, and the counter stopped.
    StoodStill,
    /// The machine was suspended, and the counter matches neither case.
    Unclear,
    /// The counter advanced more than the clocks, and no clock shows a suspension.
    RanAhead,
    /// The counter advanced less than the clocks.
    FellBehind,
}

/// A time span in which the counter and the clock did not advance together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Interruption {
    pub(super) counter: Counter,
    /// Duration of the suspension, or the difference between counter and clock.
    pub(super) time: Duration,
    /// Counter at the last reading before the interruption, in ticks.
    pub(super) from: u64,
    /// Counter in ticks and wall clock at the first reading after the interruption.
    pub(super) until: (u64, SystemTime),
}

impl Counter {
    /// Returns `true` if a span of ticks that contains the interruption is shorter than the elapsed
    /// time.
    pub(super) fn loses_time(self) -> bool {
        matches!(self, Self::StoodStill | Self::Unclear | Self::FellBehind)
    }
}

/// Detects an interruption between two readings, using the given rate of the counter. Returns
/// `None` if there was none.
pub(super) fn between(
    last: &Reading,
    now: &Reading,
    seconds_per_tick: f64,
) -> Option<Interruption> {
    let found = |counter, time| {
        Some(Interruption { counter, time, from: last.ticks, until: (now.ticks, now.wall) })
    };
    let suspended = now.suspended_since(last);
    let is_suspended = suspended >= SHORTEST_SUSPENSION;
    let awake = now.awake.saturating_sub(last.awake).as_secs_f64();
    let Some(ticks) = now.ticks.checked_sub(last.ticks) else {
        let back = (last.ticks - now.ticks) as f64 * seconds_per_tick;
        return match is_suspended {
            true => found(Counter::Unclear, suspended),
            // The counters of two cores may differ by a few ticks.
            false if back < 1e-3 => None,
            false => found(Counter::FellBehind, Duration::from_secs_f64(back + awake)),
        };
    };
    let ahead = ticks as f64 * seconds_per_tick - awake;
    if !is_suspended {
        // While the system corrects its clock, the clock may run a few per cent faster or slower
        // for some minutes.
        let allowed = f64::max(1.0, awake / 50.0);
        let gap = Duration::try_from_secs_f64(ahead.abs()).unwrap_or(Duration::MAX);
        return match ahead.abs() > allowed {
            true if ahead > 0.0 => found(Counter::RanAhead, gap),
            true => found(Counter::FellBehind, gap),
            false => None,
        };
    }
    let suspended_seconds = suspended.as_secs_f64();
    let allowed = suspended_seconds / 10.0 + awake / 1000.0;
    let goes_on = (ahead - suspended_seconds).abs() <= allowed;
    let stands_still = ahead.abs() <= allowed;
    let counter = match (goes_on, stands_still) {
        (true, false) => Counter::WentOn,
        (false, true) => Counter::StoodStill,
        _ => Counter::Unclear,
    };
    found(counter, suspended)
}

impl fmt::Display for Interruption {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let time = Words(self.time);
        match self.counter {
            Counter::WentOn => write!(
                formatter,
                "the machine was suspended for {time} during this run: the times of actions that \
                 were open then include it"
            ),
            Counter::StoodStill => write!(
                formatter,
                "the machine was suspended for {time} during this run: the times of actions that \
                 were open then do not include it"
            ),
            Counter::Unclear => write!(
                formatter,
                "the machine was suspended for {time} during this run: the times of actions that \
                 were open then are not reliable, because the processor's counter was changed"
            ),
            Counter::RanAhead => write!(
                formatter,
                "the processor's counter ran {time} ahead of the system's clock during this run, \
                 as after a pause of a virtual machine: the times of actions that were open then \
                 include it"
            ),
            Counter::FellBehind => write!(
                formatter,
                "the processor's counter fell {time} behind the system's clock during this run, as \
                 after a restore of a virtual machine: the times of actions that were open then \
                 are too short"
            ),
        }
    }
}

/// A duration that is printed in its two largest units.
struct Words(Duration);

impl fmt::Display for Words {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 < Duration::from_secs(10) {
            return write!(formatter, "{:.1} s", self.0.as_secs_f64());
        }
        let seconds = self.0.as_secs();
        let (days, hours, minutes) = (seconds / 86_400, seconds / 3600 % 24, seconds / 60 % 60);
        match (days, hours, minutes) {
            (0, 0, 0) => write!(formatter, "{seconds} s"),
            (0, 0, _) => write!(formatter, "{minutes} min {} s", seconds % 60),
            (0, ..) => write!(formatter, "{hours} h {minutes} min"),
            _ => write!(formatter, "{days} d {hours} h"),
        }
    }
}
