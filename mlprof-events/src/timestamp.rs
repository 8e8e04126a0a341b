use std::time::Instant;

use crate::clock;

/// A point in time on the clock of all events, which is the host's counter.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(u64);

impl Timestamp {
    /// Returns the current time. *Cost*: about 10 ns.
    #[doc(hidden)]
    pub fn now() -> Self {
        Self(clock::ticks())
    }

    /// Converts a reading of the monotonic clock. The error is about 100 ns plus a millionth of the
    /// time between `instant` and now.
    #[doc(hidden)]
    pub fn at(instant: Instant) -> Self {
        Self(clock::ticks_at(instant))
    }

    /// Returns the moment at which the counter of the [clock](crate::clock) had this value.
    #[doc(hidden)]
    pub const fn from_ticks(ticks: u64) -> Self {
        Self(ticks)
    }

    /// Returns the value of the [clock](crate::clock)'s counter at this moment.
    #[doc(hidden)]
    pub const fn ticks(self) -> u64 {
        self.0
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::clock::Rate;

    #[test]
    fn an_instant_and_a_timestamp_of_the_same_moment_agree() {
        let (before, instant, after) = (Timestamp::now(), Instant::now(), Timestamp::now());
        std::thread::sleep(Duration::from_millis(220));
        let at = Timestamp::at(instant);
        let slack = (0.000_05 / Rate::now().seconds(1)) as u64;
        assert!(at.0 + slack >= before.0 && at.0 <= after.0 + slack);
        let later = Timestamp::at(instant + Duration::from_millis(10));
        let apart = Rate::now().seconds(later.0 - at.0);
        assert!((apart - 0.01).abs() < 0.000_1, "{apart}");
    }
}
