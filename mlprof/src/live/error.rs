//! Why a process cannot be looked into.

use std::io;
use std::path::PathBuf;

use mlprof_events::live::Answer;

use super::ProcessName;

/// Why a process cannot be looked into.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder of sockets is not this user's own.
    #[cfg(unix)]
    #[error(transparent)]
    Folder(#[from] mlprof_events::live::FolderError),
    /// No process has this number.
    #[error("there is no process {process}: `mlprof ps` lists those that can be looked into")]
    NoProcess {
        /// Which one.
        process: ProcessName,
    },
    /// Processes of several containers have this number, and none where the command runs.
    #[error(
        "several containers have a process {number}: name one of them ({})",
        .names.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", ")
    )]
    Ambiguous {
        /// The number.
        number: u32,
        /// Names of the processes.
        names: Vec<ProcessName>,
    },
    /// It is somebody else's.
    #[error("process {process} belongs to another user, whom alone it answers")]
    OtherUser {
        /// Which one.
        process: ProcessName,
    },
    /// It runs, but nobody can ask it.
    #[error(
        "process {process} does not listen: a program that has one of mlprof's plugins with its feature `live` does if it is started \
         with MLPROF_LIVE=1 in its environment, any other one by `mlprof run --live`"
    )]
    NotListening {
        /// Which one.
        process: ProcessName,
    },
    /// There is nothing to choose from.
    #[error(
        "no training of this user listens: a program that has one of mlprof's plugins with its feature `live` does if it is started \
         with MLPROF_LIVE=1 in its environment, any other one by `mlprof run --live`"
    )]
    NoneListens,
    /// There is more than one.
    #[error("{} trainings listen: name one of them ({})", .0.len(), .0.iter().map(ProcessName::to_string).collect::<Vec<_>>().join(", "))]
    SeveralListen(
        /// Their processes.
        Vec<ProcessName>,
    ),
    /// Its queue of connections is full.
    #[error("process {process} does not take connections: it may be stopped")]
    NotAnswering {
        /// Which one.
        process: ProcessName,
    },
    /// The connection ended.
    #[error("process {process} ended, or closed the connection, before it had answered")]
    Gone {
        /// Which one.
        process: ProcessName,
    },
    /// The connection does not work.
    #[error("process {process} cannot be asked")]
    Connection {
        /// Which one.
        process: ProcessName,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It said why not.
    #[error("process {process}: {message}")]
    Refused {
        /// Which one.
        process: ProcessName,
        /// In its words.
        message: String,
    },
    /// It speaks another version of the protocol, or is no training.
    #[error(
        "what process {process} answers is not understood: {reason}; is it of another version of mlprof?"
    )]
    NotUnderstood {
        /// Which one.
        process: ProcessName,
        /// What is wrong.
        reason: String,
    },
    /// It has no profiler.
    #[error(
        "nothing measures in process {process}, so there is no report yet: `mlprof record {process}` records a few of its \
         steps"
    )]
    NothingMeasures {
        /// Which one.
        process: ProcessName,
    },
    /// All ranks have said why not.
    #[error("none of the {ranks} ranks that could be asked was recorded")]
    NoRank {
        /// How many were asked.
        ranks: usize,
    },
    /// A result cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Which file, or `standard output`.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// There are no Unix sockets here.
    #[error("this system has no Unix sockets, by which mlprof looks into a training that runs")]
    NotUnix,
}

impl Error {
    /// An answer to something else.
    pub(super) fn unexpected(process: ProcessName, answer: Answer) -> Self {
        match answer {
            Answer::Error { message } => Self::Refused { process, message },
            _ => Self::NotUnderstood { process, reason: "it answers something else".to_owned() },
        }
    }
}
