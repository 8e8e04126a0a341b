//! Time limit for waiting on a device.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlprof_events::own_thread;

use mlprof_events::panics::contain;

/// Maximum time that mlprof's own threads wait for a device. `mlprof report` and `mlprof dump` give
/// up after 10 s.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 4000 });

/// Report note for incomplete device times.
pub(crate) const STILL_AT_WORK: &str =
    "a device was still busy after 4 s, so device times of its unfinished work are missing";

/// Calls `work`, which waits for devices, and returns `true` if it finished in time.
///
/// - A thread of the program waits without a limit, because its stage ends when its work ends.
/// - An mlprof thread waits for at most 4 s. It may answer a query about a training that hangs, or
///   write the last report before a signal ends the process.
pub(super) fn wait_for_devices(work: fn()) -> bool {
    static WORKER: Worker = Worker::new();
    if own_thread::is_own() {
        return WORKER.is_over_within(PATIENCE, work);
    }
    work();
    true
}

/// Thread that waits for devices on behalf of all concurrent callers.
struct Worker(Mutex<Option<Arc<Turn>>>);

/// One piece of work on that thread.
struct Turn {
    process: u32,
    began: Instant,
    is_over: Mutex<bool>,
    ends: Condvar,
}

impl Worker {
    const fn new() -> Self {
        Self(Mutex::new(None))
    }

    fn is_over_within(&'static self, patience: Duration, work: fn()) -> bool {
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // A forked child does not have the threads of its parent.
        let running = current.take_if(|turn| turn.process == std::process::id() && !turn.is_over());
        let turn = match running {
            Some(turn) => turn,
            None => match Turn::start(work) {
                Ok(turn) => turn,
                // The system cannot create a thread, so this call gives up.
                Err(_) => return false,
            },
        };
        *current = Some(turn.clone());
        drop(current);
        turn.is_over_by(turn.began + patience)
    }
}

impl Turn {
    fn start(work: fn()) -> std::io::Result<Arc<Self>> {
        let turn = Arc::new(Self {
            process: std::process::id(),
            began: Instant::now(),
            is_over: Mutex::new(false),
            ends: Condvar::new(),
        });
        let works = turn.clone();
        own_thread::spawn("mlprof-device", move || {
            // A failed device reports its error when the program uses it.
            let _ = contain(work);
            *works.is_over.lock().unwrap_or_else(PoisonError::into_inner) = true;
            works.ends.notify_all();
        })?;
        Ok(turn)
    }

    fn is_over(&self) -> bool {
        *self.is_over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_over_by(&self, end: Instant) -> bool {
        let is_over = self.is_over.lock().unwrap_or_else(PoisonError::into_inner);
        let patience = end.saturating_duration_since(Instant::now());
        let waited = self.ends.wait_timeout_while(is_over, patience, |is_over| !*is_over);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    static IS_BUSY: AtomicBool = AtomicBool::new(true);
    static CALLS: AtomicUsize = AtomicUsize::new(0);

    /// Simulates a device that works until `IS_BUSY` is cleared.
    fn device() {
        CALLS.fetch_add(1, Ordering::Relaxed);
        while IS_BUSY.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn a_device_that_hangs_is_waited_for_by_the_program_alone() {
        static WORKER: Worker = Worker::new();
        let short = Duration::from_millis(20);
        assert!(!WORKER.is_over_within(short, device));
        assert!(!WORKER.is_over_within(short, device));
        assert_eq!(CALLS.load(Ordering::Relaxed), 1, "one thread waits for all");
        IS_BUSY.store(false, Ordering::Relaxed);
        while !WORKER.is_over_within(Duration::from_secs(60), device) {}
        assert!(WORKER.is_over_within(Duration::from_secs(60), || panic!("a device that failed")));

        let (sender, is_own) = mpsc::channel();
        let asks = move || sender.send(own_thread::is_own()).expect("somebody listens");
        own_thread::spawn("mlprof-test", asks).expect("a thread");
        assert!(is_own.recv().expect("an answer") && !own_thread::is_own());
    }
}
