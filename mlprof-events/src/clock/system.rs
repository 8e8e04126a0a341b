//! The clock of the operating system, and its absence: `wasm32-unknown-unknown` has none, and
//! there each of std's functions that read one, or wait, panics.

use std::time::{Duration, Instant, SystemTime};

/// Whether the platform has a clock. Without one nothing is measured: every span is 0.
pub const IS_THERE: bool = !cfg!(all(target_family = "wasm", target_os = "unknown"));

/// Measures the time since it was started.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch(Option<Instant>);

impl Stopwatch {
    /// Starts one.
    pub fn start() -> Self {
        Self(IS_THERE.then(Instant::now))
    }

    /// Returns the time since the start; 0 where there is no clock.
    pub fn elapsed(&self) -> Duration {
        self.0.map_or(Duration::ZERO, |start| start.elapsed())
    }
}

/// Returns the wall clock's time; 1970 where there is no clock.
pub fn wall_time() -> SystemTime {
    if IS_THERE { SystemTime::now() } else { SystemTime::UNIX_EPOCH }
}

/// Waits for this long; not at all where there is no clock.
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
