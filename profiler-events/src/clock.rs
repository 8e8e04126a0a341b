//! Time: raw counter readings while recording, seconds when reporting.
//!
//! The counter is the CPU's time-stamp counter where it runs at a constant rate on all cores, else
//! the operating system's monotonic clock; `quanta` knows which. Its rate is measured against the
//! monotonic clock from the first use to the moment of the report, so that long runs are converted
//! more exactly than any calibration at start-up could.

use std::sync::OnceLock;
use std::time::{Duration, Instant, SystemTime};

use chrono::{DateTime, Utc};

use crate::forking::made_once;

/// Miri, which looks for undefined behaviour, knows no instruction that reads a counter.
#[cfg(miri)]
mod quanta {
    use std::sync::OnceLock;
    use std::time::Instant;

    #[derive(Debug, Clone)]
    pub(super) struct Clock;

    impl Clock {
        pub(super) fn new() -> Self {
            Self
        }

        pub(super) fn raw(&self) -> u64 {
            static FIRST: OnceLock<Instant> = OnceLock::new();
            1 + FIRST.get_or_init(Instant::now).elapsed().as_nanos() as u64
        }

        pub(super) fn delta_as_nanos(&self, start: u64, end: u64) -> u64 {
            end - start
        }
    }
}

/// Shorter spans than this are converted by quanta's own calibration.
const MINIMAL_BASE: Duration = Duration::from_millis(200);

struct Origin {
    clock: quanta::Clock,
    ticks: u64,
    instant: Instant,
    wall: SystemTime,
}

fn origin() -> &'static Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    made_once(&ORIGIN, || {
        let clock = quanta::Clock::new();
        // The shortest of a few attempts has the wall clock and the counter closest together.
        let reading = || {
            let ticks = clock.raw();
            let (instant, wall) = (Instant::now(), SystemTime::now());
            (clock.raw() - ticks, ticks, instant, wall)
        };
        let first = reading();
        let (_, ticks, instant, wall) = (0..8)
            .map(|_| reading())
            .fold(first, |best, next| if next.0 < best.0 { next } else { best });
        Origin { clock, ticks, instant, wall }
    })
}

/// The counter now, for those who have no [`Clock`] of their own.
pub fn ticks() -> u64 {
    origin().clock.raw()
}

/// What the counter showed, or will show, at `instant`.
pub fn ticks_at(instant: Instant) -> u64 {
    let origin = origin();
    let per_second = 1.0 / Rate::now().seconds_per_tick;
    match instant.checked_duration_since(origin.instant) {
        Some(after) => origin.ticks + (after.as_secs_f64() * per_second) as u64,
        None => {
            let before = origin.instant.duration_since(instant).as_secs_f64();
            origin.ticks.saturating_sub((before * per_second) as u64)
        }
    }
}

/// Reads the counter. Every profiler has its own, so that no reading has to ask whether a global
/// one is ready.
#[derive(Debug, Clone)]
pub struct Clock {
    is_in_line: bool,
    quanta: quanta::Clock,
}

impl Default for Clock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock {
    /// One to be read by whoever has it.
    pub fn new() -> Self {
        let quanta = origin().clock.clone();
        // quanta does not tell which clock it chose; a reading between two of the counter does.
        let (before, reading, after) = (counter(), quanta.raw(), counter());
        Self { is_in_line: after != 0 && (before..=after).contains(&reading), quanta }
    }

    /// The counter now, in ticks of its own.
    pub fn ticks(&self) -> u64 {
        self.quanta.raw()
    }

    /// The counter now, by one instruction where that can be.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.is_in_line { counter() } else { self.ticks() }
    }

    /// Whether [`counter`] reads this clock.
    pub fn is_in_line(&self) -> bool {
        self.is_in_line
    }
}

/// The processor's counter, by one instruction; 0 where there is none that we know. The same as
/// [`Clock::ticks`] if the clock [is in line](Clock::is_in_line).
///
/// quanta's own reading cannot be inlined without link-time optimisation. Twice per scope, a call
/// and the registers it makes its caller save are a tenth of what a scope costs.
#[inline(always)]
pub fn counter() -> u64 {
    #[cfg(miri)]
    return quanta::Clock.raw();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has the instruction, and quanta has used it before if the
    // operating system lets programs do so.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let count: u64;
        // SAFETY: reads the virtual counter, which Linux, macOS and Windows let programs read;
        // no memory and no flags are touched.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
        }
        return count;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", miri)))]
    0
}

/// The counter and the clock at one moment: the closest of three attempts, since the processor may be taken
/// away between two readings for as long as a rate is measured over.
fn read_together(counter: impl Fn() -> u64, elapsed: impl Fn() -> Duration) -> (u64, Duration) {
    let attempt = || {
        let before = counter();
        let elapsed = elapsed();
        let apart = counter().saturating_sub(before);
        (apart, before + apart / 2, elapsed)
    };
    let (_, ticks, elapsed) = (0..2)
        .map(|_| attempt())
        .fold(attempt(), |best, next| if next.0 < best.0 { next } else { best });
    (ticks, elapsed)
}

/// Converts ticks, with the rate as known at the moment it was made.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    seconds_per_tick: f64,
}

impl Rate {
    /// The rate as it is known by now.
    pub fn now() -> Self {
        let origin = origin();
        let (ticks, elapsed) = read_together(|| origin.clock.raw(), || origin.instant.elapsed());
        let spent = ticks.saturating_sub(origin.ticks);
        if elapsed < MINIMAL_BASE || spent == 0 {
            return Self::calibrated();
        }
        Self { seconds_per_tick: elapsed.as_secs_f64() / spent as f64 }
    }

    /// The rate as it was when the clock was first used: for short spans, and for those who have no time to read both
    /// clocks. Right to some ten thousandths.
    pub fn calibrated() -> Self {
        const SAMPLE: u64 = 1 << 32;
        let nanoseconds = origin().clock.delta_as_nanos(0, SAMPLE);
        Self { seconds_per_tick: nanoseconds as f64 * 1e-9 / SAMPLE as f64 }
    }

    /// The rate by a measurement that is long enough to be right to a millionth: in the first
    /// 200 ms after the clock's first use this waits for their end.
    pub fn measured() -> Self {
        std::thread::sleep(MINIMAL_BASE.saturating_sub(origin().instant.elapsed()));
        Self::now()
    }

    /// A span of ticks in seconds.
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.seconds_per_tick
    }

    /// A span of seconds in ticks.
    pub fn ticks(&self, seconds: f64) -> u64 {
        (seconds / self.seconds_per_tick).round() as u64
    }

    /// A span of ticks in nanoseconds.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        (self.seconds(ticks) * 1e9).round() as u64
    }

    /// When the counter stood at `ticks`, by the wall clock as it was at first use.
    pub fn wall_time(&self, ticks: u64) -> DateTime<Utc> {
        let origin = origin();
        let wall = if ticks >= origin.ticks {
            origin.wall + Duration::from_secs_f64(self.seconds(ticks - origin.ticks))
        } else {
            origin.wall - Duration::from_secs_f64(self.seconds(origin.ticks - ticks))
        };
        wall.into()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_span_agrees_with_the_monotonic_clock() {
        let clock = Clock::new();
        let (ticks, instant) = (clock.ticks(), Instant::now());
        std::thread::sleep(Duration::from_millis(250));
        let (spent, elapsed) = (clock.ticks() - ticks, instant.elapsed().as_secs_f64());
        let seconds = Rate::now().seconds(spent);
        assert!((seconds / elapsed - 1.0).abs() < 0.01, "{seconds} s against {elapsed} s");
    }

    /// Whose processor is taken away between the readings of an attempt.
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
            let (ticks, elapsed) = read_together(|| pass(2), clock);
            let apart = ticks.abs_diff(u64::try_from(elapsed.as_nanos()).expect("small"));
            assert!(apart <= 2, "{ticks} ticks at {elapsed:?}, interrupted at {interrupted}");
        }
    }

    #[test]
    fn the_counter_in_line_is_the_clock_if_it_says_so() {
        let clock = Clock::new();
        if clock.is_in_line() {
            let (before, reading, after) = (counter(), clock.ticks(), counter());
            assert!(before <= reading && reading <= after);
        }
    }

    #[test]
    fn wall_time_is_now() {
        let ticks = Clock::new().ticks();
        let apart = (Rate::now().wall_time(ticks) - Utc::now()).num_milliseconds().abs();
        assert!(apart < 1000, "{apart} ms apart");
    }
}
