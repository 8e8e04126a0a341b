//! Sampling thread.

use std::io;
use std::mem;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant};

use super::nvml::{self, Board, NoCounters};
use super::settings::Settings;
use super::{RequestedSettings, State};
use crate::process_exit;
use mlprof_core::Interest;
use mlprof_core::hook::{self, CounterSample};
use mlprof_events::forking::apart_from_forks;
use mlprof_events::own_thread;

/// Number of sampling turns, incremented whenever sampling starts or its settings change. A new
/// turn begins with a sample.
static TURN: AtomicU64 = AtomicU64::new(0);

/// Id of the process that loaded NVML, or 0.
static LOADED_BY: AtomicU32 = AtomicU32::new(0);

/// Starts a new turn. The caller must then [wake](State::wake) the thread.
pub(super) fn begin_turn() {
    TURN.fetch_add(1, Ordering::Release);
}

/// Returns `true` if a profiler needs device data.
pub(super) fn is_wanted() -> bool {
    hook::interest().contains(Interest::DEVICE)
}

/// Starts the thread for the rest of the process.
pub(super) fn start() -> io::Result<Thread> {
    Ok(own_thread::spawn("mlprof-device-counters", run)?.thread().clone())
}

/// Devices of this process, or the reason why there are none. `None` before NVML is loaded.
type BoardResult = Option<Result<Board, NoCounters>>;

fn run() {
    let mut board = None;
    loop {
        let turn = TURN.load(Ordering::Acquire);
        answer(&mut board);
        let wish = State::with(|state| state.wish().cloned());
        match wish.filter(|_| is_wanted()) {
            Some(wish) => take_turn(turn, wish, &mut board),
            None => {
                // The pause may be long, so the thread must not keep a finished profiler alive.
                mlprof_core::let_go();
                if TURN.load(Ordering::Acquire) == turn {
                    std::thread::park();
                }
            }
        }
    }
}

/// Samples the devices until a new turn begins or no profiler needs device data.
fn take_turn(turn: u64, wish: RequestedSettings, board: &mut BoardResult) {
    let goes_on = || is_wanted() && TURN.load(Ordering::Acquire) == turn;
    let settings = match wish {
        Ok(settings) => settings,
        Err(why) => return say_until(&why, board, goes_on),
    };
    let why = match board.get_or_insert_with(load) {
        Ok(board) => {
            note_on_devices(board, &settings).iter().for_each(|note| say(note));
            None
        }
        Err(why) => Some(why.to_string()),
    };
    if let Some(why) = why {
        return say_until(&why, board, goes_on);
    }
    let mut pace = Pace { next: Instant::now(), interval: settings.interval() };
    let mut samples = Vec::new();
    while goes_on() {
        answer(board);
        match pace.wait(Instant::now()) {
            Some(rest) => std::thread::park_timeout(rest),
            None => round(board, &settings, &mut samples),
        }
    }
}

/// Sends the current values to all pending requests. Without devices, it drops the senders, so that
/// the requests end without values.
fn answer(board: &mut BoardResult) {
    let (asked, wish) = State::with(|state| (mem::take(&mut state.asked), state.wish().cloned()));
    if asked.is_empty() {
        return;
    }
    let settings = wish.and_then(Result::ok).unwrap_or(Settings::DEFAULT);
    let Ok(board) = board.get_or_insert_with(load) else { return };
    let mut samples = Vec::new();
    let devices = board.devices.iter_mut();
    for device in devices.filter(|device| settings.includes(device.number())) {
        let Some(result) = process_exit::before(|| device.sample(&mut samples)) else { return };
        if let Err(lost) = result {
            say(&lost.to_string());
        }
    }
    // A request that timed out has no receiver any more.
    asked.iter().for_each(|asked| drop(asked.send(samples.clone())));
}

/// Samples all devices once and sends the values to the profiler.
fn round(board: &mut BoardResult, settings: &Settings, samples: &mut Vec<CounterSample>) {
    let Some(Ok(board)) = board else { return };
    let devices = board.devices.iter_mut();
    for device in devices.filter(|device| settings.includes(device.number())) {
        let Some(result) = process_exit::before(|| device.sample(samples)) else { return };
        if let Err(lost) = result {
            say(&lost.to_string());
        }
        for sample in samples.drain(..) {
            apart_from_forks(|| hook::counter(&sample));
        }
    }
}

/// Loads NVML, or returns the reason why there are no counters.
fn load() -> Result<Board, NoCounters> {
    let process = std::process::id();
    let loaded_by = LOADED_BY.compare_exchange(0, process, Ordering::Relaxed, Ordering::Relaxed);
    if loaded_by.is_err() {
        return Err(NoCounters::Forked);
    }
    let board = nvml::open();
    // `atexit` handlers run in reverse order. Registering ours after NVML's makes it run first.
    process_exit::watch();
    board
}

fn note_on_devices(board: &Board, settings: &Settings) -> Option<String> {
    if board.devices.iter().any(|device| settings.includes(device.number())) {
        return board.note.clone();
    }
    let known: Vec<_> = board.devices.iter().map(|device| device.number().to_string()).collect();
    Some(format!(
        "no device counters: none of the devices {:?} exists; available devices: {}",
        settings.devices.as_deref().unwrap_or_default(),
        known.join(", ")
    ))
}

/// Adds a note to all reports, including those that begin later.
fn say(note: &str) {
    apart_from_forks(|| hook::note(note));
}

fn say_until(note: &str, board: &mut BoardResult, goes_on: impl Fn() -> bool) {
    say(note);
    while goes_on() {
        answer(board);
        std::thread::park();
    }
}

/// Schedule of the next sample.
struct Pace {
    next: Instant,
    interval: Duration,
}

impl Pace {
    /// Returns the time until the next sample, or `None` if a sample is due now. The following
    /// sample is then due at the next multiple of the interval, so missed samples are skipped.
    fn wait(&mut self, now: Instant) -> Option<Duration> {
        if let Some(rest) = self.next.checked_duration_since(now).filter(|rest| !rest.is_zero()) {
            return Some(rest);
        }
        let late = now.duration_since(self.next).as_nanos() / self.interval.as_nanos().max(1);
        let intervals = u32::try_from(late).unwrap_or(u32::MAX).saturating_add(1);
        let step = self.interval.saturating_mul(intervals);
        self.next = self.next.checked_add(step).unwrap_or(now);
        None
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn samples_that_were_missed_are_left_out() {
        let (start, interval) = (Instant::now(), Duration::from_millis(10));
        let mut pace = Pace { next: start, interval };
        let at = |milliseconds: u64| start + Duration::from_millis(milliseconds);
        assert_eq!(pace.wait(at(0)), None);
        assert_eq!(pace.wait(at(1)), Some(Duration::from_millis(9)));
        assert_eq!(pace.wait(at(12)), None, "late");
        assert_eq!(pace.wait(at(12)), Some(Duration::from_millis(8)), "and not later for that");
        assert_eq!(pace.wait(at(57)), None);
        assert_eq!(pace.wait(at(57)), Some(Duration::from_millis(3)));
    }
}
