//! Replacement for `quanta` on platforms where it does not work. Miri does not support an
//! instruction that reads a counter. On WebAssembly without a system, `quanta` needs a browser's
//! JavaScript.

use std::sync::OnceLock;

use super::system::Stopwatch;

/// The operating system's clock in nanoseconds. It never advances on a platform without a clock.
#[derive(Debug, Clone)]
pub(super) struct Clock;

impl Clock {
    pub(super) fn new() -> Self {
        Self
    }

    pub(super) fn raw(&self) -> u64 {
        static FIRST: OnceLock<Stopwatch> = OnceLock::new();
        1 + FIRST.get_or_init(Stopwatch::start).elapsed().as_nanos() as u64
    }

    pub(super) fn delta_as_nanos(&self, start: u64, end: u64) -> u64 {
        end - start
    }
}
