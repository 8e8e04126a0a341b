//! Sampling profiler. It interrupts all threads many times a second and records their stacks, so
//! that it covers code without instrumentation.
//!
//! ```no_run
//! use mlprof_core::sampler::Sampler;
//!
//! let sampler = Sampler::start(1000)?;
//! // … the work …
//! let report = sampler.stop();
//! print!("{report}");
//! # Ok::<(), mlprof_core::sampler::SamplerError>(())
//! ```
//!
//! `AdvancedProfiler::sampled` adds the samples below the exact tables of its actions.
//!
//! # Measurements
//!
//! Every thread of the process has its own timer on the monotonic clock. When the timer expires,
//! the thread is interrupted. A sample records the open actions of the recorder that the thread
//! used last, and its stack, including native code of all libraries. All numbers are estimates:
//! reports state the standard error of every share.
//!
//! Each tick of a thread's timer belongs to one of three categories:
//!
//! - **waiting**: when the sample was taken, the thread was asleep in an interruptible system call
//!   (a lock, a channel, `sleep`, a socket).
//! - **stalled**: the thread could not be interrupted for some time after the tick. It was ready
//!   while other threads had all processors, or it was waiting for a disk.
//! - **work**: all other ticks.
//!
//! Shares in reports are shares of work.
//!
//! # Implementation
//!
//! * *Threads* are found in `/proc/self/task` every 10 ms, and as soon as they record their first
//!   action. They need no registration. A thread that lives for less than 10 ms and records no
//!   action may be missed.
//! * *The handler* does not allocate, takes no lock, and calls no function that does. It runs on
//!   the thread's own stack and not on an alternate one. Programs make alternate stacks only as
//!   large as their own handlers need. If less than 64 kB of stack are left, it records only the
//!   current function. A handler of the program may run for a long time on an alternate stack. That
//!   stack then needs about 4 kB for a second signal, as for any other signal. If less than 2 kB of
//!   it are left, the sample is postponed.
//! * *Stacks* are walked with unwinding tables, which compilers emit for all code, and with frame
//!   pointers in code without tables. Frame pointers alone are cheaper
//!   ([`SamplerSettings::frame_pointers`]). However, callers or whole stacks are missing if a
//!   function was compiled without them. At most the innermost 128 frames are kept.
//! * *Stack memory* is only read between the thread's stack pointer and the end of its stack. If
//!   the thread runs on another stack (that of a coroutine, or an alternate one), only the current
//!   function is recorded.
//! * *A thread that waits* for more than 20 ticks in a row is left alone until it runs again: that
//!   it is still where it was is known from its processor time, which is looked at every 10 ms.
//!   Work that is done until then is not sampled; the report says how much.
//!
//! # Effects on the program
//!
//! *Cost*: about 2 to 5 µs per sample, most of which is spent in the kernel. `cargo run --release
//! -p benches --bin sampler` measures it. *Memory*: about 150 kB per thread that exists at the same
//! time, and a call tree of at most 262,144 nodes.
//!
//! System calls that wait are restarted after a sample if the system supports that (`read`,
//! `write`, locks, `wait`). `poll`, `epoll_wait`, `select`, `nanosleep` and calls with a time limit
//! return `EINTR` at each interruption, as with every signal. The signal is a real-time signal that
//! the program does not use. Shared libraries stay loaded until the sampler stops.
//!
//! Threads are not sampled if the system has no timer for them (`ulimit -i`), or if there are
//! already 4,096 threads. The report states their number. The sampler retries such threads at
//! increasing intervals.
//!
//! Only one sampler can run in a process at a time. A forked child is not sampled.
//!
//! *Linux on x86-64 and aarch64 only*. On other systems, and without the feature `sampling`,
//! [`Sampler::start`] returns an error.

#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(all(
    feature = "sampling",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(loom)
))]
mod linux;
#[cfg(not(all(
    feature = "sampling",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(loom)
)))]
#[path = "not_available.rs"]
mod linux;

#[cfg(any(
    loom,
    all(
        feature = "sampling",
        target_os = "linux",
        any(target_arch = "x86_64", target_arch = "aarch64")
    )
))]
#[cfg_attr(loom, allow(dead_code, reason = "loom looks at it alone"))]
mod lease;

use std::time::Duration;

use mlprof_events::clock::{self, Rate};
use mlprof_events::live::ThreadStack;
use mlprof_events::{RunContext, Stage};
use mlprof_report::internals::tell_missing;
use mlprof_report::samples::Samples;
use mlprof_report::{Output, SamplesReport};

/// Maximum sampling rate in samples per second and thread.
pub const HIGHEST_RATE: u32 = 20_000;

/// Sampling rate for [`Sampler::stacks`]. At this rate each thread is sampled within a few
/// milliseconds.
const RATE_FOR_STACKS: u32 = 200;

/// Maximum time to wait for threads that cannot be interrupted.
const PATIENCE_FOR_STACKS: Duration = Duration::from_millis(500);

/// Settings of a [`Sampler`]. A plain number is a rate in hertz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerSettings {
    hz: u32,
    frame_pointers: bool,
}

impl SamplerSettings {
    /// Creates settings with a rate in samples per second and thread, from 1 to [`HIGHEST_RATE`].
    pub fn new(hz: u32) -> Self {
        Self { hz, frame_pointers: false }
    }

    /// Enables walking stacks by frame pointers instead of unwinding tables. This is cheaper, but
    /// correct only if all code was compiled with `-C force-frame-pointers=yes`.
    #[must_use]
    pub fn frame_pointers(mut self, frame_pointers: bool) -> Self {
        self.frame_pointers = frame_pointers;
        self
    }
}

impl From<u32> for SamplerSettings {
    fn from(hz: u32) -> Self {
        Self::new(hz)
    }
}

/// Reason why sampling cannot start.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The rate is out of range.
    #[error(
        "cannot start sampling at {hz} samples per second: use a rate from 1 to {HIGHEST_RATE}"
    )]
    Rate {
        /// Requested rate in hertz.
        hz: u32,
    },
    /// A sampler already runs in this process.
    #[error("cannot start sampling: another sampler is already running in this process")]
    Running,
    /// The program was built without sampling.
    #[error("cannot start sampling: mlprof-core was built without its feature `sampling`")]
    NotBuilt,
    /// This system is not supported.
    #[error("cannot start sampling on this system: only Linux on x86-64 and aarch64 is supported")]
    Unsupported,
    /// The system refused an operation that sampling needs.
    #[error("cannot {what}")]
    System {
        /// Description of the operation.
        what: &'static str,
        /// Error of the system.
        source: std::io::Error,
    },
}

mlprof_events::debug_as_display!(SamplerError);

/// Samples all threads of the process from [`start`](Self::start) until it is stopped or dropped.
/// See the [module](self).
#[must_use = "sampling ends when this is dropped"]
pub struct Sampler {
    engine: linux::Engine,
    started: u64,
}
mlprof_events::debug_as_name!([] Sampler);

impl Sampler {
    /// Starts to sample all threads of the process, including those that start later.
    ///
    /// It may be called before `main`. *Cost*: reading `/proc/self/maps` and the list of shared
    /// libraries takes about 0.1 to 5 ms.
    ///
    /// # Errors
    ///
    /// See [`SamplerError`]. After an error the program continues without sampling.
    pub fn start(settings: impl Into<SamplerSettings>) -> Result<Self, SamplerError> {
        let settings = settings.into();
        Self::can_start(settings)?;
        clock::look_for_suspension();
        let started = clock::ticks();
        Ok(Self { engine: linux::Engine::start(settings)?, started })
    }

    /// Checks if [`start`](Self::start) would succeed now, as far as that is known without
    /// starting.
    ///
    /// # Errors
    ///
    /// Returns the same errors as [`start`](Self::start), except [`SamplerError::System`].
    #[doc(hidden)]
    pub fn can_start(settings: impl Into<SamplerSettings>) -> Result<(), SamplerError> {
        let settings = settings.into();
        if !(1..=HIGHEST_RATE).contains(&settings.hz) {
            return Err(SamplerError::Rate { hz: settings.hz });
        }
        linux::Engine::can_start()
    }

    /// Returns the current stacks of all threads of the process except mlprof's own, sorted by the
    /// system's thread id. A sampler runs for the duration of the call.
    ///
    /// *Cost*: that of [`start`](Self::start). Each thread is interrupted at least once, and the
    /// calling thread reads debug information. The call takes half a second if a thread cannot be
    /// interrupted.
    ///
    /// # Errors
    ///
    /// See [`SamplerError`].
    #[doc(hidden)]
    pub fn stacks() -> Result<Vec<ThreadStack>, SamplerError> {
        let sampler = Self::start(RATE_FOR_STACKS)?;
        Ok(sampler.engine.stacks(PATIENCE_FOR_STACKS))
    }

    /// Returns a report of the samples so far. Sampling continues.
    ///
    /// *Cost*: reading debug information takes up to some seconds for programs with hundreds of
    /// megabytes of it.
    pub fn report(&self) -> SamplesReport {
        self.report_of(&RunContext::from_environment())
    }

    fn report_of(&self, run: &RunContext) -> SamplesReport {
        let mut samples = noted(self.engine.samples(None));
        samples.notes.extend(clock::notes(self.started, clock::ticks()));
        let started_at = Rate::now().wall_time(self.started);
        SamplesReport::new(samples, started_at, run)
    }

    /// Ends sampling and returns the report. If no sample was taken, prints the reason on standard
    /// error. *Cost*: that of [`report`](Self::report).
    pub fn stop(self) -> SamplesReport {
        let report = self.end(&RunContext::from_environment());
        let missing: Vec<_> = report.samples.missing().into_iter().collect();
        tell_missing(&Output::new(), &missing);
        report
    }

    /// Ends sampling and returns the report for this run. All messages are only in the report.
    #[doc(hidden)]
    pub fn end(self, run: &RunContext) -> SamplesReport {
        self.engine.stop();
        self.report_of(run)
    }

    /// Returns the samples that belong to the sessions of one recorder.
    #[doc(hidden)]
    pub fn samples_of(&self, sessions: &ReportedSessions) -> Samples {
        noted(self.engine.samples(Some(sessions)))
    }

    /// Sets the session of a recorder to which samples outside of all actions belong from now on.
    /// Samples of sessions that are not in `alive` may be discarded.
    #[doc(hidden)]
    pub fn enter_session(&self, current: u64, alive: &[u64]) {
        self.engine.enter_session(current, alive);
    }
}

/// Adds a note with the reason if there are no samples and no other note.
fn noted(mut samples: Samples) -> Samples {
    if samples.notes.is_empty()
        && let Some(missing) = samples.missing()
    {
        samples.notes.push(missing.to_string());
    }
    samples
}

/// Sessions of a recorder that a report covers.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct ReportedSessions {
    /// Session numbers, each with its stage if that is nested in the reported stage.
    pub sessions: Vec<(u64, Option<Stage>)>,
}

#[cfg(all(
    feature = "sampling",
    target_os = "linux",
    any(target_arch = "x86_64", target_arch = "aarch64"),
    not(loom)
))]
impl ReportedSessions {
    /// Returns the nested stage of a session, or `None` if the session does not belong to the
    /// report.
    pub(crate) fn sub_stage_of(&self, session: u64) -> Option<Option<Stage>> {
        let mut sessions = self.sessions.iter();
        sessions.find(|(number, _)| *number == session).map(|(_, stage)| *stage)
    }
}
