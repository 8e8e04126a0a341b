//! Sampling: where threads are, looked at many times a second, for all the code that nothing
//! instruments.
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
//! `AdvancedProfiler::sampled` puts the samples below the exact
//! tables of its actions.
//!
//! # What is measured
//!
//! Every thread of the process has a timer of its own on the monotonic clock. When it expires the
//! thread is interrupted, and what it was executing is noted: the open actions of the recorder that
//! it used last, and its stack, native code of all libraries included. All numbers are estimates:
//! reports give the standard error of every share.
//!
//! A sample is of **waiting** if its thread was asleep in a system call that can be interrupted (a
//! lock, a channel, `sleep`, a socket), and of **work** otherwise. Where several ticks had passed
//! before the thread could be interrupted, or one long ago, it was **stalled** at those: ready
//! while other threads had all processors, or waiting for a disk. Shares are of work.
//!
//! # How
//!
//! * *Threads* are found in `/proc/self/task` every 10 ms, and as soon as they record their first
//!   action; nothing has to be said to them. A thread that lives for less than 10 ms and
//!   records no action may not be seen.
//! * *The handler* allocates nothing, takes no lock and calls nothing that does. It runs on the
//!   thread's own stack, not on an alternate one, which programs make as small as their own
//!   handlers need; where less than 64 kB of stack are left, only the current function is noted. A
//!   handler of the program's that works for long on an alternate stack needs room for a second
//!   signal there, about 4 kB, as for every other signal. Where less than 2 kB of it are left the sample is taken
//!   later.
//! * *Stacks* are walked by unwinding tables, which compilers write for all code; in code without
//!   any by frame pointers. A frame-pointer chain alone is cheaper
//!   ([`SamplerSettings::frame_pointers`]), but leaves out callers, or all of a stack, wherever a
//!   function was compiled without. At most the innermost 128 frames are kept.
//! * *A stack is only read between the thread's stack pointer and the end of its stack.* On a stack
//!   that is not the thread's own (a coroutine's, an alternate one) only the current function is
//!   noted.
//! * *A thread that waits* for more than 20 ticks in a row is left alone until it runs again: that
//!   it is still where it was is known from its processor time, which is looked at every 10 ms. Work
//!   that is done until then is not sampled; the report says how much.
//!
//! # What it does to the program
//!
//! *Cost*: `cargo run --release -p benches --bin sampler` measures it; some 2 to 5 µs per sample, of
//! which the larger part is the kernel's. *Memory*: some 150 kB per thread that lives at the same
//! time, and a call tree of at most 262,144 places.
//!
//! System calls that wait are restarted after a sample where the system can (`read`, `write`,
//! locks, `wait`); `poll`, `epoll_wait`, `select`, `nanosleep` and those with a time limit return
//! `EINTR` at each interruption, as with every signal. The signal is a real-time one that the program
//! does not use. Shared libraries are kept in memory until the sampler stops.
//!
//! Threads for which the system has no timer (`ulimit -i`), and all above 4,096, are not sampled:
//! the report says how many. They are tried again, less and less often.
//!
//! One sampler runs at a time in a process. A forked child is not sampled.
//!
//! *Linux on x86-64 and aarch64 only*; elsewhere, and without the feature `sampling`, [`Sampler::start`]
//! is an error.

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

/// The most samples per second and thread that may be asked for.
pub const HIGHEST_RATE: u32 = 20_000;

/// How often threads are looked at to see where they are now: each once within a few milliseconds.
const RATE_FOR_STACKS: u32 = 200;

/// How long is waited for threads that cannot be interrupted.
const PATIENCE_FOR_STACKS: Duration = Duration::from_millis(500);

/// How a [`Sampler`] samples. A number alone is a rate in hertz.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SamplerSettings {
    hz: u32,
    frame_pointers: bool,
}

impl SamplerSettings {
    /// So many samples per second of every thread, 1 to [`HIGHEST_RATE`].
    pub fn new(hz: u32) -> Self {
        Self { hz, frame_pointers: false }
    }

    /// Walks stacks by frame pointers instead of unwinding tables: cheaper, but right only if
    /// everything was compiled with `-C force-frame-pointers=yes`.
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

/// Why nothing is sampled.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum SamplerError {
    /// The rate makes no sense.
    #[error("{hz} samples per second were asked for: 1 to {HIGHEST_RATE} are possible")]
    Rate {
        /// What was asked for.
        hz: u32,
    },
    /// The process is sampled already.
    #[error("another sampler is running in this process, and there can be only one")]
    Running,
    /// It was left out when the program was built.
    #[error("mlprof-core is built without its feature `sampling`")]
    NotBuilt,
    /// Not on this system.
    #[error("sampling works on Linux on x86-64 and aarch64 only")]
    Unsupported,
    /// The system refused something that sampling needs.
    #[error("cannot {what}")]
    System {
        /// What was to be done.
        what: &'static str,
        /// What the system said.
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
    /// Begins to sample all threads of the process, those included that start later.
    ///
    /// May be called before `main`. *Cost*: reads `/proc/self/maps` and the list of shared
    /// libraries, some 0.1 to 5 ms.
    ///
    /// # Errors
    ///
    /// See [`SamplerError`]. The program runs on as if nothing had been asked.
    pub fn start(settings: impl Into<SamplerSettings>) -> Result<Self, SamplerError> {
        let settings = settings.into();
        Self::can_start(settings)?;
        clock::look_for_suspension();
        let started = clock::ticks();
        Ok(Self { engine: linux::Engine::start(settings)?, started })
    }

    /// Whether [`start`](Self::start) would begin now, as far as can be said without beginning.
    ///
    /// # Errors
    ///
    /// As there, but for [`SamplerError::System`].
    #[doc(hidden)]
    pub fn can_start(settings: impl Into<SamplerSettings>) -> Result<(), SamplerError> {
        let settings = settings.into();
        if !(1..=HIGHEST_RATE).contains(&settings.hz) {
            return Err(SamplerError::Rate { hz: settings.hz });
        }
        linux::Engine::can_start()
    }

    /// Where every thread of the process is now, but for mlprof's own; in the order of the system's numbers of them. A sampler
    /// runs for that long, and no longer.
    ///
    /// *Cost*: as [`start`](Self::start); each thread is interrupted at least once, and the calling thread reads debug
    /// information. Half a second where a thread cannot be interrupted.
    ///
    /// # Errors
    ///
    /// See [`SamplerError`].
    #[doc(hidden)]
    pub fn stacks() -> Result<Vec<ThreadStack>, SamplerError> {
        let sampler = Self::start(RATE_FOR_STACKS)?;
        Ok(sampler.engine.stacks(PATIENCE_FOR_STACKS))
    }

    /// What was found so far; sampling goes on.
    ///
    /// *Cost*: reads debug information: up to some seconds for programs with hundreds of megabytes
    /// of it.
    pub fn report(&self) -> SamplesReport {
        self.report_of(&RunContext::from_environment())
    }

    fn report_of(&self, run: &RunContext) -> SamplesReport {
        let mut samples = noted(self.engine.samples(None));
        samples.notes.extend(clock::notes(self.started, clock::ticks()));
        let started_at = Rate::now().wall_time(self.started);
        SamplesReport::new(samples, started_at, run)
    }

    /// Ends sampling. If there are no samples, standard error says why. *Cost*: as [`report`](Self::report).
    pub fn stop(self) -> SamplesReport {
        let report = self.end(&RunContext::from_environment());
        let missing: Vec<_> = report.samples.missing().into_iter().collect();
        tell_missing(&Output::new(), &missing);
        report
    }

    /// Ends sampling, for a report of this run; what is to be said of it is in the report alone.
    #[doc(hidden)]
    pub fn end(self, run: &RunContext) -> SamplesReport {
        self.engine.stop();
        self.report_of(run)
    }

    /// What belongs to the sessions of one recorder.
    #[doc(hidden)]
    pub fn samples_of(&self, sessions: &ReportedSessions) -> Samples {
        noted(self.engine.samples(Some(sessions)))
    }

    /// From here on, what is sampled outside of all actions belongs to this session of a recorder;
    /// what is of none that is `alive` may be forgotten.
    #[doc(hidden)]
    pub fn enter_session(&self, current: u64, alive: &[u64]) {
        self.engine.enter_session(current, alive);
    }
}

/// Says in their notes why there are none, if nothing else does.
fn noted(mut samples: Samples) -> Samples {
    if samples.notes.is_empty()
        && let Some(missing) = samples.missing()
    {
        samples.notes.push(missing.to_string());
    }
    samples
}

/// The sessions of a recorder that a report is made of.
#[doc(hidden)]
#[derive(Debug, Clone, Default)]
pub struct ReportedSessions {
    /// Each with the stage inside the reported one that it is.
    pub sessions: Vec<(u64, Option<Stage>)>,
}

impl ReportedSessions {
    /// The stage inside the reported one that a session is, if it is one of the report's.
    pub(crate) fn sub_stage_of(&self, session: u64) -> Option<Option<Stage>> {
        let mut sessions = self.sessions.iter();
        sessions.find(|(number, _)| *number == session).map(|(_, stage)| *stage)
    }
}
