//! The doors into a training that runs: what it does now, the reports so far, and a few of its steps recorded on demand.
//!
//! Nothing listens unasked. With `MLPROF_LIVE=1` in its environment a program that is linked with this crate listens,
//! from before `main`, to its own user's `mlprof ps`, `top`, `record`, `report` and `dump`; [`start`] is the same from
//! within. The words are those of [`mlprof_events::live`].
//!
//! * `watcher` is a profiler beside whatever measures, or beside none. It hears of stages and steps, and wants nothing
//!   else until somebody has something recorded: then it hands on to a Tensor profiler of its own, and afterwards all
//!   hooks are as they were. `trainings` is what it knows of steps, `recording` a request on its way;
//!   `tallies` is what it counts of actions as long as somebody follows them, and `samples` where threads are, when asked.
//! * `service` is the socket, and who answers there. A door only translates: what can be asked, the watcher does.
//! * `dynolog` is another door: with `KINETO_USE_DAEMON` in the environment, what a daemon of that name asks for is recorded,
//!   as PyTorch's libkineto does.
//! * `metrics`, with the feature of that name, is Prometheus' door: a port of this machine, where it is asked for what the
//!   watcher counts.
//! * `otlp`, with the feature of that name, pushes the same to a collector of OpenTelemetry's that the environment names.
//!
//! *Cost*: some nanoseconds per action and a lock that nobody else holds per step, while it listens; else nothing.
//! While it records: what the Tensor profiler costs. The trace is written by a thread of ours.
//!
//! *A recording of steps* begins with the next step, which warms up and is not kept, and has whole steps only. Who asks
//! for a second one meanwhile is told so. A schedule of the program's own goes on beside it, and is not changed. If the
//! stage ends meanwhile, the recording ends, with the steps that it has. *A recording of a time* begins with the next
//! step and ends with the first step that ends after that time. If no step begins for so long it begins at once and has no
//! steps; if the last step takes longer than that time again, it ends within it. If whoever asked goes away it is
//! thrown away.
//!
//! With the feature `capture` there is another door: TensorBoard's and XProf's CAPTURE PROFILE button, at a port that
//! `MLPROF_CAPTURE_PORT` or `capture` names.
//!
//! *Unix only*; elsewhere [`start`] is an error.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![deny(clippy::print_stderr, clippy::print_stdout)]

#[cfg(unix)]
mod answer_budget;
#[cfg(all(unix, feature = "capture"))]
mod capture;
#[cfg(unix)]
mod descriptor;
#[cfg(all(unix, any(feature = "metrics", feature = "otlp")))]
mod durations;
#[cfg(target_os = "linux")]
mod dynolog;
#[cfg(unix)]
mod epochs;
#[cfg(all(unix, any(feature = "metrics", feature = "otlp")))]
mod families;
#[cfg(unix)]
mod launch;
#[cfg(all(unix, feature = "metrics"))]
mod metrics;
mod otlp;
#[cfg(unix)]
mod own_file;
#[cfg(unix)]
mod process_memory;
#[cfg(all(unix, any(feature = "metrics", feature = "otlp")))]
mod random;
#[cfg(unix)]
mod recording;
mod registration;
#[cfg(unix)]
mod requester;
#[cfg(unix)]
mod samples;
#[cfg(unix)]
mod service;
#[cfg(unix)]
mod shared;
#[cfg(unix)]
mod tallies;
#[cfg(unix)]
mod told;
#[cfg(unix)]
mod trainings;
#[cfg(unix)]
mod watcher;

#[cfg(all(unix, feature = "capture"))]
pub use capture::capture;
#[cfg(all(unix, feature = "metrics"))]
pub use metrics::metrics;

use std::io;
use std::path::PathBuf;

/// Why the process does not listen.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// There is no folder of this user's own for the socket.
    #[cfg(unix)]
    #[error(transparent)]
    Folder(#[from] mlprof_events::live::FolderError),
    /// The socket cannot be made.
    #[error("cannot make the socket {path}", path = .path.display())]
    Socket {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The port cannot be had, or no thread that listens there.
    #[cfg(all(unix, any(feature = "capture", feature = "metrics")))]
    #[error("cannot listen on port {port} of 127.0.0.1")]
    Port {
        /// Which.
        port: u16,
        /// Why.
        source: io::Error,
    },
    /// The token that whoever asks for metrics must send can be neither written nor read.
    #[cfg(all(unix, feature = "metrics"))]
    #[error("cannot use the token {path}", path = .path.display())]
    Token {
        /// Where.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The system has no Unix sockets.
    #[error("this system has no Unix sockets, by which mlprof looks into a training that runs")]
    NotUnix,
}

mlprof_events::debug_as_display!(Error);

/// Has the process listen from here on, to the end; trainings that begin from here on are known. If it listens already
/// nothing changes.
///
/// # Errors
///
/// If none of the folders for sockets can be used, or another
/// copy of this crate listens in this process.
pub fn start() -> Result<(), Error> {
    #[cfg(unix)]
    return service::start();
    #[cfg(not(unix))]
    return Err(Error::NotUnix);
}

/// Has the process listen no more. Whoever asks at this moment is still answered.
fn stop() {
    #[cfg(unix)]
    service::stop();
}
