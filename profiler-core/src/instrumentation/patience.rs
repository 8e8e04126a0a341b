//! How long a device is waited for.

use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use mlprof_events::own_thread;

use mlprof_events::panics::contain;

/// How long threads of mlprof's own wait for a device. `mlprof report` and `mlprof dump` give up after 10 s.
const PATIENCE: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 4000 });

/// What a report says whose device times are not complete.
pub(crate) const STILL_AT_WORK: &str =
    "a device was still at work after 4 s: the device times of that work are missing";

/// Calls `work`, which waits for devices, and returns whether it was over in time. A thread of the program
/// waits as long as that takes: its stage is over when its work is. A thread of mlprof's own waits for 4 s at
/// most: it answers somebody who asks about a training that may hang, or writes the last report before a
/// signal ends the process.
pub(super) fn wait_for_devices(work: fn()) -> bool {
    static WORKER: Worker = Worker::new();
    if own_thread::is_own() {
        return WORKER.is_over_within(PATIENCE, work);
    }
    work();
    true
}

/// One thread that waits, for all that wait at the same time.
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
        // A forked child has no thread of its parent's.
        let running = current.take_if(|turn| turn.process == std::process::id() && !turn.is_over());
        let turn = match running {
            Some(turn) => turn,
            None => match Turn::start(work) {
                Ok(turn) => turn,
                // The system has no further thread: nobody can wait for this one.
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
            // A device that has failed says so where the program uses it.
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

    /// A device that works until it is told not to.
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
