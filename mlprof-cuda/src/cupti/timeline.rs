//! Conversion of CUPTI's times to the clock of all events.

use std::sync::OnceLock;

use super::functions::{Functions, code};
use mlprof_core::hook::Timestamp;
use mlprof_events::clock::{self, Rate};

/// Linear relation between CUPTI's nanoseconds and the ticks of our clock.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) struct Timeline {
    nanoseconds: u64,
    ticks: u64,
    seconds_per_tick: f64,
}

/// First time of our clock in nanoseconds. It is not 0, because CUPTI uses 0 for an unknown time.
const BEGINNING: u64 = 1_000_000_000;

static OURS: OnceLock<Timeline> = OnceLock::new();

/// Returns the current time of our clock in nanoseconds. CUPTI calls it for every record and for
/// the synchronisation with the device's clock.
extern "C" fn now() -> u64 {
    OURS.get().map_or(BEGINNING, |timeline| timeline.nanoseconds_at(clock::ticks()))
}

impl Timeline {
    /// Makes CUPTI use our clock, so that a call lies within its op to the nanosecond. If CUPTI
    /// does not support this, both clocks are read one after the other, which is accurate to about
    /// 100 ns.
    pub(super) fn agree(functions: &Functions) -> Self {
        let ours = *OURS.get_or_init(|| Self {
            nanoseconds: BEGINNING,
            ticks: clock::ticks(),
            seconds_per_tick: Rate::measured().seconds(1),
        });
        if let Some(register) = functions.register_timestamp {
            // SAFETY: `now` is an `extern "C"` function with CUPTI's signature. It exists until the
            // process ends, and it does not unwind.
            if unsafe { register(now) } == code::SUCCESS {
                return ours;
            }
        }
        Self::compared(functions).unwrap_or(ours)
    }

    /// Compares both clocks several times. The shortest attempt is the most accurate.
    fn compared(functions: &Functions) -> Option<Self> {
        let reading = || {
            let (before, mut nanoseconds) = (clock::ticks(), 0);
            // SAFETY: the function writes one `u64` to `nanoseconds`, an initialised local.
            let known = unsafe { (functions.timestamp)(&mut nanoseconds) } == code::SUCCESS;
            let took = clock::ticks().saturating_sub(before);
            known.then_some((took, before + took / 2, nanoseconds))
        };
        let (_, ticks, nanoseconds) = (0..16).filter_map(|_| reading()).min()?;
        Some(Self { nanoseconds, ticks, seconds_per_tick: Rate::measured().seconds(1) })
    }

    fn nanoseconds_at(&self, ticks: u64) -> u64 {
        let after = ticks.saturating_sub(self.ticks) as f64 * self.seconds_per_tick;
        self.nanoseconds + (after * 1e9) as u64
    }

    /// Converts a record's time.
    pub(super) fn timestamp(&self, nanoseconds: u64) -> Timestamp {
        let ticks = |span: u64| (span as f64 * 1e-9 / self.seconds_per_tick).round() as u64;
        Timestamp::from_ticks(match nanoseconds.checked_sub(self.nanoseconds) {
            Some(after) => self.ticks.saturating_add(ticks(after)),
            None => self.ticks.saturating_sub(ticks(self.nanoseconds - nanoseconds)),
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_is_told_to_cupti_comes_back_as_it_was() {
        let ticks = clock::ticks();
        let timeline =
            Timeline { nanoseconds: BEGINNING, ticks, seconds_per_tick: Rate::now().seconds(1) };
        for after in [0, 1_000, 3_000_000_000, 3_000_000_000_000, 30_000_000_000_000_000] {
            let told = timeline.nanoseconds_at(ticks + after);
            let back = timeline.timestamp(told).ticks();
            // A nanosecond corresponds to a few ticks.
            assert!(back.abs_diff(ticks + after) <= 8, "{after}: {back} of {}", ticks + after);
        }
        assert!(timeline.timestamp(0).ticks() < ticks);
    }
}
