//! Endpoints of a running training. They show its current state and the reports so far, and record
//! a few steps on demand.
//!
//! No endpoint listens by default. With `MLPROF_LIVE=1` in its environment, a program linked with
//! this crate listens before `main` begins. It answers `mlprof ps`, `top`, `record`, `report` and
//! `dump` of the same user. [`start`] does the same from the program. The protocol is defined in
//! [`mlprof_events::live`].
//!
//! * `watcher` is a profiler that runs in addition to other profilers. It normally receives only
//!   stages and steps. During a recording it also forwards events to its own Tensor profiler, and
//!   afterwards all hooks are restored. `trainings` tracks steps, and `recording` handles a
//!   request. `tallies` counts actions while a client follows them, and `samples` collects thread
//!   stacks on request.
//! * `service` is the Unix socket and answers its requests. An endpoint only translates requests,
//!   which the watcher then performs.
//! * `dynolog` is the endpoint for the daemon of that name. With `KINETO_USE_DAEMON` in the
//!   environment, its requests are recorded, as by PyTorch's libkineto.
//! * `metrics`, with the feature of that name, is the Prometheus endpoint. It serves the watcher's
//!   counters at a local port.
//! * `otlp`, with the feature of that name, pushes the same metrics to the OpenTelemetry collector
//!   in the environment.
//!
//! *Cost*: while the process listens, some nanoseconds per action and one uncontended lock per
//! step; otherwise none. During a recording, the cost of the Tensor profiler is added. A background
//! thread writes the trace.
//!
//! *A recording of steps* begins with the next step, which is a discarded warmup step, and contains
//! only complete steps. A second request during a recording is refused. The program's own profiler
//! schedule continues unchanged. If the stage ends, the recording ends with the steps so far. *A
//! recording of a time* begins with the next step, and ends with the first step that ends after
//! that time. If no step begins within the requested time, the recording begins at once and has no
//! steps. If the last step takes longer than the requested time once more, the recording ends
//! within that step. If the client disconnects, the recording is discarded.
//!
//! With the feature `capture`, TensorBoard's and XProf's CAPTURE PROFILE button has an endpoint.
//! `MLPROF_CAPTURE_PORT` or `capture` sets its port.
//!
//! *Unix only*; on other systems, [`start`] returns an error.

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
#[cfg(unix)]
mod recording_target;
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
mod trainings;
#[cfg(unix)]
mod watcher;

#[cfg(all(unix, feature = "capture"))]
pub use capture::capture;
#[cfg(all(unix, feature = "metrics"))]
pub use metrics::metrics;

use std::io;
use std::path::PathBuf;

/// Error that prevents the process from listening.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No folder owned by this user is available for the socket.
    #[cfg(unix)]
    #[error(transparent)]
    Folder(#[from] mlprof_events::live::FolderError),
    /// The socket cannot be created.
    #[error("cannot create the socket {path}", path = .path.display())]
    Socket {
        /// Path of the socket.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// The port cannot be bound, or the listening thread cannot be started.
    #[cfg(all(unix, any(feature = "capture", feature = "metrics")))]
    #[error("cannot listen on port {port} of 127.0.0.1")]
    Port {
        /// Port number.
        port: u16,
        /// I/O error.
        source: io::Error,
    },
    /// The token that metrics requests must contain cannot be written or read.
    #[cfg(all(unix, feature = "metrics"))]
    #[error("cannot use the token file {path}", path = .path.display())]
    Token {
        /// Path of the token's file.
        path: PathBuf,
        /// I/O error.
        source: io::Error,
    },
    /// The system has no Unix sockets.
    #[error("cannot attach to running trainings on this system: it has no Unix sockets")]
    NotUnix,
}

mlprof_events::debug_as_display!(Error);

/// Starts to listen, until the process ends. Trainings that begin after this call are observed. If
/// the process already listens, nothing changes.
///
/// # Errors
///
/// Returns an error if none of the socket folders can be used, or if another copy of this crate
/// already listens in this process.
pub fn start() -> Result<(), Error> {
    #[cfg(unix)]
    return service::start();
    #[cfg(not(unix))]
    return Err(Error::NotUnix);
}

/// Stops listening. Active requests are still answered.
fn stop() {
    #[cfg(unix)]
    service::stop();
}
