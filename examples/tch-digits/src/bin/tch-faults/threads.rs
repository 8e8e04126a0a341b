//! Threads for which other threads must wait.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{JoinHandle, available_parallelism};
use std::time::{Duration, Instant};

use digits::Disk;

/// Lines that a thread writes to a disk. It holds the lines' lock during each write, so that other
/// threads wait for it.
pub(crate) struct LockedLog {
    lines: Arc<Mutex<Vec<String>>>,
    ask: Sender<()>,
    has_begun: Receiver<()>,
    waited: Duration,
}

impl LockedLog {
    /// Starts the thread, which ends when this value is dropped.
    pub(crate) fn start(disk: Disk) -> Self {
        let lines = Arc::<Mutex<Vec<String>>>::default();
        let (ask, asked) = channel();
        let (begin, has_begun) = channel();
        let written = lines.clone();
        std::thread::spawn(move || {
            for () in asked {
                let mut written = written.lock().unwrap_or_else(PoisonError::into_inner);
                // The receiver no longer exists after the training has ended, so the error is
                // ignored.
                let _ = begin.send(());
                disk.wait();
                written.clear();
            }
        });
        Self { lines, ask, has_begun, waited: Duration::ZERO }
    }

    /// Starts writing the existing lines and adds a line.
    pub(crate) fn add(&mut self, line: String) {
        if self.ask.send(()).is_ok() {
            let _ = self.has_begun.recv();
        }
        let started = Instant::now();
        let mut lines = self.lines.lock().unwrap_or_else(PoisonError::into_inner);
        self.waited += started.elapsed();
        lines.push(line);
    }
}

impl Drop for LockedLog {
    /// Prints the total waiting time for the lock to standard error.
    fn drop(&mut self) {
        eprintln!("waited for the lock: {} ms", self.waited.as_millis());
    }
}

/// Number of polling threads per core.
const POLLERS_PER_CORE: usize = 6;

/// Threads that constantly poll for work, which never exists.
pub(crate) struct Pollers {
    is_over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pollers {
    /// Starts the threads.
    pub(crate) fn start() -> Self {
        let is_over = Arc::<AtomicBool>::default();
        let cores = available_parallelism().map_or(1, usize::from);
        let threads = (0..POLLERS_PER_CORE * cores).map(|_| {
            let is_over = is_over.clone();
            std::thread::spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    std::hint::spin_loop();
                }
            })
        });
        Self { threads: threads.collect(), is_over }
    }
}

impl Drop for Pollers {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            // The thread does not panic.
            let _ = thread.join();
        }
    }
}
