//! The sampler for Linux.

mod collector;
mod handler;
mod left_behind;
mod process_layout;
mod refusals;
mod registers;
mod retired_snapshots;
mod ring;
mod sampled_threads;
mod samples_so_far;
mod slot;
mod stacks;
mod summarize;
mod symbols;
mod threads;
mod timer;
mod tree;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use self::collector::Collector;
use super::{ReportedSessions, SamplerError, SamplerSettings};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::live::ThreadStack;
use mlprof_events::open_scopes;
use mlprof_events::own_thread;
use mlprof_report::samples::Samples;

/// Interval at which the collector looks for threads and takes samples.
const ROUND: Duration = Duration::from_millis(10);

/// Interval at which [`Engine::stacks`] checks if all threads have been sampled.
const LOOK: Duration = Duration::from_millis(2);

/// Maximum time to wait for handlers when a sampler ends. If a handler takes longer, the next
/// sampler frees its resources.
const PATIENCE_FOR_HANDLERS: Duration = Duration::from_millis(500);

/// Id of the process in which a sampler runs; 0 if there is none.
static RUNNING: AtomicU32 = AtomicU32::new(0);

impl SamplerSettings {
    /// Returns the time between two ticks, in nanoseconds.
    fn period(self) -> u64 {
        1_000_000_000 / u64::from(self.hz)
    }
}

/// A running sampler.
pub(super) struct Engine {
    shared: Arc<Shared>,
    /// Id of the process that started the sampler. A forked child has a copy of this value, but
    /// neither the timers nor the thread.
    process: u32,
    thread: Mutex<Option<JoinHandle<()>>>,
}

struct Shared {
    collector: Mutex<Collector>,
    is_stopping: AtomicBool,
}

impl Shared {
    fn collector(&self) -> MutexGuard<'_, Collector> {
        self.collector.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs the loop of the sampler's own thread.
    fn run(&self) {
        open_scopes::listen(Some(std::thread::current()));
        while !self.is_stopping.load(Ordering::Acquire) {
            self.collector().round();
            std::thread::park_timeout(ROUND);
        }
        open_scopes::listen(None);
    }
}

impl Engine {
    pub(super) fn can_start() -> Result<(), SamplerError> {
        match RUNNING.load(Ordering::Relaxed) == std::process::id() {
            true => Err(SamplerError::Running),
            false => Ok(()),
        }
    }

    pub(super) fn start(settings: SamplerSettings) -> Result<Self, SamplerError> {
        mlprof_events::forking::watch();
        let process = std::process::id();
        let other = RUNNING.load(Ordering::Relaxed);
        // The sampler of a parent process does not run in this one.
        if other == process
            || RUNNING
                .compare_exchange(other, process, Ordering::Acquire, Ordering::Relaxed)
                .is_err()
        {
            return Err(SamplerError::Running);
        }
        let started = Self::start_alone(settings, process);
        if started.is_err() {
            RUNNING.store(0, Ordering::Release);
        }
        started
    }

    fn start_alone(settings: SamplerSettings, process: u32) -> Result<Self, SamplerError> {
        let mut collector = Collector::new(settings)?;
        collector.round();
        let shared = Arc::new(Shared {
            collector: Mutex::new(collector),
            is_stopping: AtomicBool::new(false),
        });
        let running = Arc::clone(&shared);
        match own_thread::spawn("mlprof-sampler", move || running.run()) {
            Ok(thread) => Ok(Self { shared, process, thread: Mutex::new(Some(thread)) }),
            Err(source) => {
                shared.collector().stop();
                Err(SamplerError::System { what: "start the sampler's thread", source })
            }
        }
    }

    /// Returns the samples so far, of all sessions or of those of a report.
    pub(super) fn samples(&self, of: Option<&ReportedSessions>) -> Samples {
        if self.is_forked() {
            return Samples::of_forked_child();
        }
        let mut collector = self.shared.collector();
        let found = collector.found();
        // The signal is blocked while the report is made. At a high rate the samples would slow the
        // report down too much.
        let signal = collector.signal();
        drop(collector);
        blocking(signal, || summarize::summarize(found, of))
    }

    /// Waits until every thread has been sampled, for at most `patience`. Then ends sampling and
    /// returns the last stack of each thread.
    pub(super) fn stacks(&self, patience: Duration) -> Vec<ThreadStack> {
        if self.is_forked() {
            return Vec::new();
        }
        let began = Instant::now();
        while !self.shared.collector().has_seen_all() && began.elapsed() < patience {
            std::thread::sleep(LOOK);
        }
        let last = self.shared.collector().last_places();
        self.stop();
        stacks::stacks(last)
    }

    pub(super) fn enter_session(&self, current: u64, alive: &[u64]) {
        if !self.is_forked() {
            self.shared.collector().enter_session(current, alive);
        }
    }

    /// Ends sampling and keeps the results. A second call has no effect.
    pub(super) fn stop(&self) {
        if self.is_forked() {
            return;
        }
        let thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(thread) = thread else { return };
        self.shared.is_stopping.store(true, Ordering::Release);
        thread.thread().unpark();
        // The thread panics only if the standard library does. The error cannot be reported here.
        let _ = thread.join();
        let mut collector = self.shared.collector();
        collector.stop();
        // Handlers take microseconds, unless their thread is preempted.
        let began = Instant::now();
        while !collector.is_at_rest() && began.elapsed() < PATIENCE_FOR_HANDLERS {
            std::thread::sleep(Duration::from_micros(50));
        }
        RUNNING.store(0, Ordering::Release);
    }

    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        self.stop();
        if self.is_forked() {
            // In a forked child, the thread that held the lock in the parent does not exist. The
            // collector and the thread handle are leaked instead.
            std::mem::forget(Arc::clone(&self.shared));
            if let Ok(mut thread) = self.thread.try_lock() {
                std::mem::forget(thread.take());
            }
        }
    }
}

/// Runs `work` with `signal`, if there is one, blocked for the calling thread.
fn blocking<T>(signal: Option<libc::c_int>, work: impl FnOnce() -> T) -> T {
    // SAFETY: `sigset_t` is a plain structure, for which all-zero bytes are the empty set.
    let (mut blocked, mut before): (libc::sigset_t, libc::sigset_t) =
        unsafe { (std::mem::zeroed(), std::mem::zeroed()) };
    // SAFETY: the pointers refer to initialised local sets that outlive the calls. `signal` is a
    // valid signal number.
    unsafe {
        if let Some(signal) = signal {
            libc::sigaddset(&raw mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &raw const blocked, &raw mut before);
    }
    let result = work();
    // SAFETY: `before` is a local set that `pthread_sigmask` filled. The third argument may be
    // null.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut()) };
    result
}
