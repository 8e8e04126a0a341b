//! Time: raw counter readings while recording, seconds in reports.
//!
//! The counter is the CPU's time-stamp counter if it runs at a constant rate on all cores.
//! Otherwise it is the operating system's monotonic clock; `quanta` makes this choice.
//!
//! The counter's rate is measured against the monotonic clock, from the first use until the report.
//! Long runs are therefore converted more exactly than with a calibration at start-up. Spans in
//! which the machine was suspended do not count for the rate, and reports [mention them](notes).

mod interruption;
mod readings;
mod system;
mod timeline;
#[cfg(any(miri, all(target_family = "wasm", target_os = "unknown")))]
mod without_counter;

use std::sync::{OnceLock, PoisonError};
use std::time::{Duration, Instant};

#[cfg(unix)]
pub(crate) use self::readings::read;
use self::readings::{Reading, read_together};
pub use self::system::{IS_THERE, Stopwatch, wall_time};
use self::timeline::{MINIMAL_BASE, Timeline};
#[cfg(any(miri, all(target_family = "wasm", target_os = "unknown")))]
use self::without_counter as quanta;
use crate::UtcTime;
use crate::forking::{Mutex, MutexGuard, made_once};

/// Duration over which the rate is measured again after the machine appears to have been suspended.
/// The fresh rate shows how the counter behaved during the suspension.
const FRESH_BASE: Duration = Duration::from_millis(50);

/// Maximum age of a rate. Clocks are not read again if the last reading is more recent.
const RECENT: Duration = Duration::from_millis(10);

/// Number of attempts to read all clocks at one moment. The first use makes more attempts, because
/// it also fixes the wall clock.
const ATTEMPTS: usize = 3;
const ATTEMPTS_AT_FIRST: usize = 9;

struct Origin {
    clock: quanta::Clock,
    timeline: Mutex<Timeline>,
}

impl Origin {
    fn read(&self) -> Reading {
        Reading::now(|| self.clock.raw(), ATTEMPTS)
    }

    fn timeline(&self) -> MutexGuard<'_, Timeline> {
        self.timeline.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a current reading of the clocks to the time line and returns the time line.
    fn look(&self) -> MutexGuard<'_, Timeline> {
        let mut timeline = self.timeline();
        let calibrated = calibrated(&self.clock);
        if let Some(rate) = timeline.seconds_per_tick() {
            let since = self.clock.raw().checked_sub(timeline.last().ticks);
            if since.is_some_and(|ticks| ticks as f64 * rate < RECENT.as_secs_f64()) {
                return timeline;
            }
        }
        let mut now = self.read();
        if timeline.is_in_doubt(&now, calibrated) {
            drop(timeline);
            let fresh = self.measure().unwrap_or(calibrated);
            timeline = self.timeline();
            timeline.set_fresh_rate(fresh);
            now = self.read();
        }
        timeline.advance(now, calibrated);
        timeline
    }

    /// Measures the rate again. Returns `None` if the machine is suspended meanwhile.
    fn measure(&self) -> Option<f64> {
        let first = self.read();
        system::sleep(FRESH_BASE);
        let last = self.read();
        let ticks = last.ticks.checked_sub(first.ticks).filter(|ticks| *ticks > 0)?;
        let awake = last.awake.checked_sub(first.awake)?;
        (last.suspended_since(&first) < FRESH_BASE).then(|| awake.as_secs_f64() / ticks as f64)
    }
}

/// Returns the seconds per tick that were measured when the clock was created.
fn calibrated(clock: &quanta::Clock) -> f64 {
    const SAMPLE: u64 = 1 << 32;
    clock.delta_as_nanos(0, SAMPLE) as f64 * 1e-9 / SAMPLE as f64
}

fn origin() -> &'static Origin {
    static ORIGIN: OnceLock<Origin> = OnceLock::new();
    made_once(&ORIGIN, || {
        let clock = quanta::Clock::new();
        let first = Reading::now(|| clock.raw(), ATTEMPTS_AT_FIRST);
        Origin { clock, timeline: Mutex::new(Timeline::new(first)) }
    })
}

/// Returns the current counter in ticks, for callers without a [`Clock`] of their own.
pub fn ticks() -> u64 {
    origin().clock.raw()
}

/// Returns the counter in ticks at `instant`, which may be in the past or in the future.
pub fn ticks_at(instant: Instant) -> u64 {
    let rate = Rate::now();
    let clock = &origin().clock;
    // The conversion starts from the present and not from the first use, because the machine may
    // have been suspended since then.
    let (ticks, now) = read_together(|| clock.raw(), Instant::now, ATTEMPTS);
    match now.checked_duration_since(instant) {
        Some(ago) => ticks.saturating_sub(rate.ticks(ago.as_secs_f64())),
        None => ticks.saturating_add(rate.ticks(instant.duration_since(now).as_secs_f64())),
    }
}

/// Checks if the machine was suspended since the last check. It is called when a stage begins and
/// ends, so that a report does not mention a suspension outside of its stage. *Cost*: about 0.3 µs.
pub fn look_for_suspension() {
    drop(origin().look());
}

/// Returns the report notes for a run between two moments, given in ticks. They state how long the
/// machine was suspended during the run, and if the times of open actions include the suspension.
/// The list is empty if the machine was not suspended.
pub fn notes(started: u64, ended: u64) -> Vec<String> {
    origin().look().notes(started, ended)
}

/// Reader of the counter. Each profiler owns one, so that a reading does not have to check if a
/// global clock is initialised.
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
    /// Creates a clock that reads the process-wide counter.
    pub fn new() -> Self {
        let quanta = origin().clock.clone();
        // quanta does not report which clock it chose. If its reading lies between two readings of
        // the counter, it uses the counter.
        let (before, reading, after) = (counter(), quanta.raw(), counter());
        Self { is_in_line: after != 0 && (before..=after).contains(&reading), quanta }
    }

    /// Returns the current counter in ticks.
    pub fn ticks(&self) -> u64 {
        self.quanta.raw()
    }

    /// Returns the current counter in ticks, with a single instruction where that is possible.
    #[inline(always)]
    pub fn now(&self) -> u64 {
        if self.is_in_line { counter() } else { self.ticks() }
    }

    /// Returns `true` if [`counter`] reads this clock.
    pub fn is_in_line(&self) -> bool {
        self.is_in_line
    }
}

/// Returns the processor's counter with one instruction, or 0 on an unsupported architecture. The
/// value equals [`Clock::ticks`] if the clock [is in line](Clock::is_in_line).
///
/// quanta's own function cannot be inlined without link-time optimisation. Each scope reads the
/// counter twice. A call that makes its caller save registers would take a tenth of the cost of a
/// scope.
#[inline(always)]
pub fn counter() -> u64 {
    #[cfg(miri)]
    return quanta::Clock.raw();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: every x86-64 processor has `rdtsc`, and the instruction accesses no memory. A system
    // that forbids it to programs ends the process with a signal.
    return unsafe { core::arch::x86_64::_rdtsc() };
    #[cfg(all(target_arch = "aarch64", not(miri)))]
    {
        let count: u64;
        // SAFETY: the instruction reads the virtual counter, which Linux, macOS and Windows make
        // readable for programs. It accesses no memory and changes no flags.
        unsafe {
            core::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags));
        }
        return count;
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64", miri)))]
    0
}

/// Converter from ticks to time, with the rate that was known when it was created.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    seconds_per_tick: f64,
}

impl Rate {
    /// Returns the rate as measured so far. Time in which the machine was suspended does not count.
    /// *Cost*: about 0.3 µs. The first call after the first suspension of the machine takes 50 ms.
    pub fn now() -> Self {
        let origin = origin();
        let measured = origin.look().seconds_per_tick();
        measured.map_or_else(Self::calibrated, |seconds_per_tick| Self { seconds_per_tick })
    }

    /// Returns the rate that was measured at the clock's first use. It suits short spans, and
    /// callers that cannot afford to read both clocks. The relative error is some ten thousandths.
    pub fn calibrated() -> Self {
        Self { seconds_per_tick: calibrated(&origin().clock) }
    }

    /// Returns a rate with a relative error of a millionth. In the first 200 ms after the clock's
    /// first use, this function waits until they have passed.
    pub fn measured() -> Self {
        let origin = origin();
        let passed = origin.read().awake.saturating_sub(origin.timeline().first().awake);
        system::sleep(MINIMAL_BASE.saturating_sub(passed));
        Self::now()
    }

    /// Converts a span of ticks to seconds.
    pub fn seconds(&self, ticks: u64) -> f64 {
        ticks as f64 * self.seconds_per_tick
    }

    /// Converts a span of seconds to ticks.
    pub fn ticks(&self, seconds: f64) -> u64 {
        (seconds / self.seconds_per_tick).round() as u64
    }

    /// Converts a span of ticks to nanoseconds.
    pub fn nanoseconds(&self, ticks: u64) -> u64 {
        (self.seconds(ticks) * 1e9).round() as u64
    }

    /// Returns the seconds between two moments given in ticks of the counter. The result is also
    /// correct if a suspension set the counter back in between. Returns 0 if `to` is not later than
    /// `from`.
    pub fn seconds_between(&self, from: u64, to: u64) -> f64 {
        match to.checked_sub(from) {
            Some(ticks) => self.seconds(ticks),
            None => origin().timeline().seconds_between(from, to, self.seconds_per_tick),
        }
    }

    /// Returns the wall-clock time at which the counter stood at `ticks`. It is computed from the
    /// wall clock at first use. If the counter stopped during a suspension, it is computed from the
    /// wall clock at wake-up.
    pub fn wall_time(&self, ticks: u64) -> UtcTime {
        let (anchor, wall) = origin().timeline().anchor_of(ticks);
        let wall = if ticks >= anchor {
            wall + Duration::from_secs_f64(self.seconds(ticks - anchor))
        } else {
            wall - Duration::from_secs_f64(self.seconds(anchor - ticks))
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
        let now = UtcTime::from(wall_time());
        let apart = Rate::now().wall_time(ticks).seconds_since(now).abs();
        assert!(apart < 1.0, "{apart} s apart");
    }
}
