//! Time: raw counter readings while recording, seconds when reporting.
//!
//! The counter is the CPU's time-stamp counter where it runs at a constant rate on all cores, else
//! the operating system's monotonic clock; `quanta` knows which. Its rate is measured against the
//! monotonic clock from the first use to the moment of the report, so that long runs are converted
//! more exactly than any calibration at start-up could. Spans in which the machine was suspended do
//! not count for the rate, and reports [name them](notes).

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

/// Once the machine seems to have been suspended, the rate is measured anew over this long, to tell
/// what the counter did meanwhile.
const FRESH_BASE: Duration = Duration::from_millis(50);

/// A rate as old as this is still good: clocks are not read again.
const RECENT: Duration = Duration::from_millis(10);

/// How often the clocks are read at one moment. At first use more often: the wall clock is read
/// there.
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

    /// Adds what the clocks show now to the time line, and returns it.
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

    /// Measures the rate anew; `None` if the machine is suspended meanwhile.
    fn measure(&self) -> Option<f64> {
        let first = self.read();
        system::sleep(FRESH_BASE);
        let last = self.read();
        let ticks = last.ticks.checked_sub(first.ticks).filter(|ticks| *ticks > 0)?;
        let awake = last.awake.checked_sub(first.awake)?;
        (last.suspended_since(&first) < FRESH_BASE).then(|| awake.as_secs_f64() / ticks as f64)
    }
}

/// Seconds per tick as measured when the clock was made.
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

/// The counter now, for those who have no [`Clock`] of their own.
pub fn ticks() -> u64 {
    origin().clock.raw()
}

/// What the counter showed, or will show, at `instant`.
pub fn ticks_at(instant: Instant) -> u64 {
    let rate = Rate::now();
    let clock = &origin().clock;
    // From now, not from the first use: the machine may have been suspended since then.
    let (ticks, now) = read_together(|| clock.raw(), Instant::now, ATTEMPTS);
    match now.checked_duration_since(instant) {
        Some(ago) => ticks.saturating_sub(rate.ticks(ago.as_secs_f64())),
        None => ticks.saturating_add(rate.ticks(instant.duration_since(now).as_secs_f64())),
    }
}

/// Looks whether the machine was suspended since the last look. Called when a stage begins and
/// ends, so that a suspension outside of it is in no note of its report. *Cost*: some 0.3 µs.
pub fn look_for_suspension() {
    drop(origin().look());
}

/// Sentences for the notes of a report of a run from one moment to another, in ticks: how long the
/// machine was suspended during it, and whether the times of open actions contain that. None if it
/// was not.
pub fn notes(started: u64, ended: u64) -> Vec<String> {
    origin().look().notes(started, ended)
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

/// Converts ticks, with the rate as known at the moment it was made.
#[derive(Debug, Clone, Copy)]
pub struct Rate {
    seconds_per_tick: f64,
}

impl Rate {
    /// The rate as it is known by now. Time in which the machine was suspended does not count for it. *Cost*: some
    /// 0.3 µs; 50 ms once in a process, when the machine was suspended for the first time.
    pub fn now() -> Self {
        let origin = origin();
        let measured = origin.look().seconds_per_tick();
        measured.map_or_else(Self::calibrated, |seconds_per_tick| Self { seconds_per_tick })
    }

    /// The rate as it was when the clock was first used: for short spans, and for those who have no
    /// time to read both clocks. Right to some ten thousandths.
    pub fn calibrated() -> Self {
        Self { seconds_per_tick: calibrated(&origin().clock) }
    }

    /// The rate by a measurement that is long enough to be right to a millionth: in the first
    /// 200 ms after the clock's first use this waits for their end.
    pub fn measured() -> Self {
        let origin = origin();
        let passed = origin.read().awake.saturating_sub(origin.timeline().first().awake);
        system::sleep(MINIMAL_BASE.saturating_sub(passed));
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

    /// From one moment to a later one, in ticks of the counter, in seconds: also where the counter
    /// was set back in between, as a suspended machine may do. 0 if it is not later.
    pub fn seconds_between(&self, from: u64, to: u64) -> f64 {
        match to.checked_sub(from) {
            Some(ticks) => self.seconds(ticks),
            None => origin().timeline().seconds_between(from, to, self.seconds_per_tick),
        }
    }

    /// When the counter stood at `ticks`, by the wall clock as it was at first use, or when the
    /// machine was woken if the counter did not go on meanwhile.
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
