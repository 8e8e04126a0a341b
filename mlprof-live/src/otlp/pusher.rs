//! Thread that pushes metrics periodically, earlier after a temporary failure, and once more when
//! the process ends.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::Thread;
use std::time::{Duration, Instant, SystemTime};

use mlprof_core::output::say;
use mlprof_events::own_thread;
use opentelemetry_proto::tonic::resource::v1::Resource;

use super::collector::{Collector, Outcome};
use super::message::{self, Form};
use super::resource::resource;
use super::settings::Settings;
use crate::families::{self, families, families_and_devices};
use crate::random::random;
use crate::shared::{self, door_is_open};
use crate::watcher::Watcher;

/// Maximum time that the process waits at exit for the last push.
const PATIENCE_AT_EXIT: Duration = Duration::from_secs(2);

/// Approximate delay before the first retry. It doubles with each further failure.
const FIRST_WAIT: Duration = Duration::from_secs(1);

/// Maximum delay between attempts, even if a collector requests a longer one.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// Id of the process that pushes, or 0.
static PROCESS: AtomicU32 = AtomicU32::new(0);
static THREAD: OnceLock<Thread> = OnceLock::new();
/// Set when the process ends, so that the next push is the last one.
static ENDS: AtomicBool = AtomicBool::new(false);
/// Set when the last push is over, regardless of its result.
static IS_OVER: AtomicBool = AtomicBool::new(false);

struct Pusher {
    settings: Settings,
    collector: Collector,
    watcher: Arc<Watcher>,
    resource: Resource,
    /// Time at which counting began, in nanoseconds since 1970.
    since: u64,
    /// Kinds of failures that were already printed, so that each is printed once.
    said: HashSet<&'static str>,
}

/// Starts counting and pushing metrics in a background thread, until the process ends. Must be
/// called only once.
///
/// # Errors
///
/// Returns an error if the thread cannot be started.
pub(super) fn start(settings: Settings) -> Result<(), String> {
    mlprof_events::forking::watch();
    families::remember();
    let collector = Collector::new(&settings);
    door_is_open(|| ());
    let watcher = shared::watcher().ok_or("the process cannot be observed")?.clone();
    watcher.count_actions();
    let resource = resource(&settings.resource);
    let (since, said) = (now(), HashSet::new());
    let pusher = Pusher { settings, collector, watcher, resource, since, said };
    let thread = own_thread::spawn("mlprof-otlp", move || pusher.push_on());
    let thread = thread.map_err(|error| format!("cannot start a thread: {error}"))?;
    let _ = THREAD.set(thread.thread().clone());
    PROCESS.store(std::process::id(), Ordering::SeqCst);
    // SAFETY: `exiting` is an `extern "C"` function of this library and stays valid while it is
    // loaded. The registration fails only if memory is exhausted, and the last push is then
    // skipped.
    unsafe { libc::atexit(exiting) };
    Ok(())
}

/// Returns the current time in nanoseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    since.as_nanos() as u64
}

impl Pusher {
    fn push_on(mut self) {
        // The drop guard also runs if the thread panics, so the end of the process never waits for
        // a dead thread.
        struct Over;
        impl Drop for Over {
            fn drop(&mut self) {
                IS_OVER.store(true, Ordering::SeqCst);
            }
        }
        let _over = Over;
        let (mut wait, mut failures) = (self.settings.interval, 0);
        loop {
            let is_last = ends_within(wait);
            let pushed = catch_unwind(AssertUnwindSafe(|| self.push(is_last)));
            let outcome = pushed.unwrap_or_else(|_| {
                Outcome::Refused("mlprof panicked while it wrote them".to_owned())
            });
            failures = if matches!(outcome, Outcome::Later(..)) { failures + 1 } else { 0 };
            wait = wait_after(&outcome, failures, self.settings.interval, random());
            self.tell(outcome);
            if is_last {
                return;
            }
        }
    }

    /// Pushes all current values. Counters are cumulative, so they include the values of failed
    /// pushes.
    fn push(&self, is_last: bool) -> Outcome {
        let form =
            Form { is_exponential: self.settings.is_exponential, since: self.since, now: now() };
        // At the end of the process, devices are not queried, because their libraries may already
        // be shut down.
        let known = if is_last { families } else { families_and_devices };
        let message = message::write(&known(&self.watcher), &self.resource, form);
        self.collector.push(&self.settings, message)
    }

    /// Prints each kind of failure once, so that the training's output is not flooded with
    /// collector problems.
    fn tell(&mut self, outcome: Outcome) {
        let url = &self.settings.shown_url;
        let (kind, sentence) = match outcome {
            Outcome::Taken => return,
            Outcome::Partly(what) => ("partly", format!("{url} {what} (shown once)")),
            Outcome::Refused(why) => {
                ("refused", format!("{url} does not accept the metrics: {why} (shown once)"))
            }
            Outcome::Later(why, _) => {
                let what = "cannot send metrics to";
                ("later", format!("{what} {url}: {why}; mlprof keeps retrying (shown once)"))
            }
        };
        if self.said.insert(kind) {
            say(format_args!("mlprof: {sentence}"));
        }
    }
}

/// Waits for the given time. Returns `true`, possibly earlier, if the process ends.
fn ends_within(wait: Duration) -> bool {
    let until = Instant::now() + wait;
    loop {
        if ENDS.load(Ordering::SeqCst) {
            return true;
        }
        match until.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => std::thread::park_timeout(left),
            _ => return false,
        }
    }
}

/// Returns the time until the next push. After a temporary failure, the delay grows up to the usual
/// interval. It is randomised, so that the processes of one training do not retry at the same
/// moment.
fn wait_after(outcome: &Outcome, failures: u32, interval: Duration, random: u64) -> Duration {
    match outcome {
        Outcome::Later(_, Some(asked_for)) => {
            (*asked_for).clamp(FIRST_WAIT.min(interval), LONGEST_WAIT)
        }
        Outcome::Later(_, None) => {
            let whole =
                FIRST_WAIT.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(interval);
            let share = (random >> 11) as f64 / (1_u64 << 53) as f64;
            whole.mul_f64(0.5 + share / 2.0)
        }
        _ => interval,
    }
}

extern "C" fn exiting() {
    // A forked child does not have this thread.
    if PROCESS.load(Ordering::SeqCst) != std::process::id() {
        return;
    }
    ENDS.store(true, Ordering::SeqCst);
    if let Some(thread) = THREAD.get() {
        thread.unpark();
    }
    let began = Instant::now();
    while !IS_OVER.load(Ordering::SeqCst) {
        if began.elapsed() >= PATIENCE_AT_EXIT {
            let seconds = PATIENCE_AT_EXIT.as_secs();
            // This handler is called from C, so no panic may escape.
            let _ = catch_unwind(|| {
                say(format_args!(
                    "mlprof: the collector did not accept the last metrics within {seconds} s; they are lost"
                ));
            });
            return;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_collector_that_is_away_is_asked_ever_more_seldom() {
        let minute = Duration::from_secs(60);
        let later = Outcome::Later("away".to_owned(), None);
        let at = |failures, random| wait_after(&later, failures, minute, random).as_secs_f64();
        for (failures, whole) in [(1, 1.0), (2, 2.0), (5, 16.0), (7, 60.0), (1000, 60.0)] {
            assert_eq!(at(failures, 0), whole / 2.0);
            assert!(at(failures, u64::MAX) <= whole && at(failures, u64::MAX) > whole * 0.999);
        }
        let short = Duration::from_millis(100);
        assert!(wait_after(&later, 9, short, u64::MAX) <= short);
        let asked = |seconds| Outcome::Later(String::new(), Some(Duration::from_secs(seconds)));
        assert_eq!(wait_after(&asked(300), 1, minute, 0).as_secs(), 300);
        assert_eq!(wait_after(&asked(0), 1, minute, 0), FIRST_WAIT);
        assert_eq!(wait_after(&asked(0), 1, short, 0), short);
        assert_eq!(wait_after(&asked(1 << 40), 1, minute, 0), LONGEST_WAIT);
        for other in
            [Outcome::Taken, Outcome::Partly(String::new()), Outcome::Refused(String::new())]
        {
            assert_eq!(wait_after(&other, 0, minute, 0), minute);
        }
    }
}
