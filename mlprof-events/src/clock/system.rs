//! The operating system's clock. `wasm32-unknown-unknown` has no clock: each function of the
//! standard library that reads a clock or waits panics there.

use std::time::{Duration, Instant, SystemTime};

/// `true` if the platform has a clock. Otherwise every measured span is 0.
pub const IS_THERE: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// Measures the time since its start.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Option<Instant>);

impl Stopwatch {
    /// Starts a stopwatch.
    pub fn start() -> Self {
        Self(IS_THERE.then(Instant::now))
    }

    /// Returns the time since the start, or 0 on a platform without a clock.
    pub fn elapsed(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |start| start.elapsed())
    }
}

/// Returns the wall clock's time, or 1970 on a platform without a clock.
pub fn wall_time() -> SystemTime {
    if IS_THERE { SystemTime::now() } else { SystemTime::UNIX_EPOCH }
}

/// Waits for `time`. Returns at once on a platform without a clock.
pub(super) fn sleep(time: Duration) {
    if IS_THERE {
        std::thread::sleep(time);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stopwatch_measures_at_least_what_was_slept() {
        let stopwatch = Stopwatch::start();
        sleep(Duration::from_millis(2));
        assert!(stopwatch.elapsed() >= Duration::from_millis(2));
        assert!(wall_time() > SystemTime::UNIX_EPOCH);
    }
}
