//! Errors of the live commands.

use std::io;
use std::path::PathBuf;

use mlprof_events::live::Answer;

use super::ProcessName;

/// Error that prevents a live command from querying a process.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The socket folder does not belong to this user.
    #[cfg(unix)]
    #[error(transparent)]
    Folder(#[from] mlprof_events::live::FolderError),
    /// No process has this id.
    #[error("cannot find process {process}; `mlprof ps` lists the processes that can be inspected")]
    NoProcess {
        /// Name of the requested process.
        process: ProcessName,
    },
    /// Processes in several containers have this id, but no process in the current namespace does.
    #[error(
        "process {number} is ambiguous, because several containers have one; use one of these \
         names: {}",
        .names.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The ambiguous process id.
        number: u32,
        /// Names of the candidate processes.
        names: Vec<ProcessName>,
    },
    /// The process belongs to another user.
    #[error("cannot inspect process {process}: it belongs to another user")]
    OtherUser {
        /// Name of the process.
        process: ProcessName,
    },
    /// The process runs, but does not listen.
    #[error(
        "cannot inspect process {process}: it does not listen; set MLPROF_LIVE=1 for programs with \
         an mlprof plugin (feature `live`), and start other programs with `mlprof run --live`"
    )]
    NotListening {
        /// Name of the process.
        process: ProcessName,
    },
    /// No training of this user listens.
    #[error(
        "cannot find a training of this user that can be inspected; set MLPROF_LIVE=1 for programs \
         with an mlprof plugin (feature `live`), and start other programs with `mlprof run --live`"
    )]
    NoneListens,
    /// More than one training listens.
    #[error("{} trainings can be inspected; choose one of these processes: {}",
        .0.len(), .0.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", "))]
    SeveralListen(
        /// Names of the candidate processes.
        Vec<ProcessName>,
    ),
    /// The process does not accept connections, because its backlog is full.
    #[error("cannot connect to process {process}: it may be stopped")]
    NotAnswering {
        /// Name of the process.
        process: ProcessName,
    },
    /// The process closed the connection.
    #[error("process {process} ended or closed the connection before it answered")]
    Gone {
        /// Name of the process.
        process: ProcessName,
    },
    /// Communication with the process failed.
    #[error("cannot query process {process}")]
    Connection {
        /// Name of the process.
        process: ProcessName,
        /// I/O error.
        #[source]
        error: io::Error,
    },
    /// The process refused the request.
    #[error("process {process}: {message}")]
    Refused {
        /// Name of the process.
        process: ProcessName,
        /// Reason given by the process.
        message: String,
    },
    /// The answer cannot be parsed. The process uses another protocol version, or is not a
    /// training.
    #[error(
        "cannot parse the reply of process {process}: {reason}; it may use another mlprof version"
    )]
    NotUnderstood {
        /// Name of the process.
        process: ProcessName,
        /// Parse error.
        reason: String,
    },
    /// The process has no profiler.
    #[error(
        "process {process} has no profiler and no report; `mlprof record {process}` records a few \
         of its steps"
    )]
    NothingMeasures {
        /// Name of the process.
        process: ProcessName,
    },
    /// All queried ranks refused the recording.
    #[error("cannot record any of the {ranks} reachable ranks")]
    NoRank {
        /// Number of queried ranks.
        ranks: usize,
    },
    /// The result cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Path of the file, or `standard output`.
        path: PathBuf,
        /// I/O error.
        #[source]
        error: io::Error,
    },
    /// The system has no Unix sockets.
    #[error("cannot inspect trainings on this system: it has no Unix sockets")]
    NotUnix,
}

impl Error {
    /// Creates the error for an answer of an unexpected kind.
    pub(super) fn unexpected(process: ProcessName, answer: Answer) -> Self {
        match answer {
            Answer::Error { message } => Self::Refused { process, message },
            _ => Self::NotUnderstood { process, reason: "unexpected kind of reply".to_owned() },
        }
    }
}
