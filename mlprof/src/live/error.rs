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
    #[error("there is no process {process}: `mlprof ps` lists those that can be looked into")]
    NoProcess {
        /// Name of the requested process.
        process: ProcessName,
    },
    /// Processes in several containers have this id, but no process in the current namespace does.
    #[error(
        "several containers have a process {number}: name one of them ({})",
        .names.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The ambiguous process id.
        number: u32,
        /// Names of the candidate processes.
        names: Vec<ProcessName>,
    },
    /// The process belongs to another user.
    #[error("process {process} belongs to another user, whom alone it answers")]
    OtherUser {
        /// Name of the process.
        process: ProcessName,
    },
    /// The process runs, but does not listen.
    #[error(
        "process {process} does not listen: a program that has one of mlprof's plugins with its feature `live` does if it is started \
         with MLPROF_LIVE=1 in its environment, any other one by `mlprof run --live`"
    )]
    NotListening {
        /// Name of the process.
        process: ProcessName,
    },
    /// No training of this user listens.
    #[error(
        "no training of this user listens: a program that has one of mlprof's plugins with its feature `live` does if it is started \
         with MLPROF_LIVE=1 in its environment, any other one by `mlprof run --live`"
    )]
    NoneListens,
    /// More than one training listens.
    #[error("{} trainings listen: name one of them ({})", .0.len(), .0.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", "))]
    SeveralListen(
        /// Names of the processes.
        Vec<ProcessName>,
    ),
    /// The process does not accept connections, because its backlog is full.
    #[error("process {process} does not take connections: it may be stopped")]
    NotAnswering {
        /// Name of the process.
        process: ProcessName,
    },
    /// The process closed the connection.
    #[error("process {process} ended, or closed the connection, before it had answered")]
    Gone {
        /// Name of the process.
        process: ProcessName,
    },
    /// Communication with the process failed.
    #[error("process {process} cannot be asked")]
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
        "what process {process} answers is not understood: {reason}; is it of another version of mlprof?"
    )]
    NotUnderstood {
        /// Name of the process.
        process: ProcessName,
        /// Parse error.
        reason: String,
    },
    /// The process has no profiler.
    #[error(
        "nothing measures in process {process}, so there is no report yet: `mlprof record {process}` records a few of its \
         steps"
    )]
    NothingMeasures {
        /// Name of the process.
        process: ProcessName,
    },
    /// All queried ranks refused the recording.
    #[error("none of the {ranks} ranks that could be asked was recorded")]
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
    #[error("this system has no Unix sockets, by which mlprof looks into a training that runs")]
    NotUnix,
}

impl Error {
    /// Creates the error for an answer of an unexpected kind.
    pub(super) fn unexpected(process: ProcessName, answer: Answer) -> Self {
        match answer {
            Answer::Error { message } => Self::Refused { process, message },
            _ => Self::NotUnderstood { process, reason: "it answers something else".to_owned() },
        }
    }
}
