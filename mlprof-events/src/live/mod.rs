//! What a training that listens and those who ask it tell each other, by a Unix socket: lines of JSON.
//!
//! A process that listens has a socket in one of several [folders](folders()) that only its user
//! may enter. Its name holds the process's whole [identity](ProcessIdentity),
//! `{process}-{namespace}-{start}.sock`, as containers may share such a folder. Whoever connects
//! writes a [`Question`] as one line, of at most [`LONGEST_REQUEST`] bytes, and reads lines, each
//! an [`Answer`]. After [`Answer::Recorded`] come as many bytes as it says; then further requests
//! may follow on the same connection. What cannot be understood is answered by [`Answer::Error`],
//! and the connection stays.

mod activity;
mod answer;
#[cfg(unix)]
mod connection;
#[cfg(unix)]
mod folder;
#[cfg(unix)]
mod identity;
mod request;
#[cfg(unix)]
mod socket;
mod stacks;
#[cfg(unix)]
mod user;

pub use activity::{ActionState, Activity, CounterState, MemoryState, ThreadState};
pub use answer::{Answer, Dump, OpenAction, OpenThread, ProcessState, Recorded, TrainingState};
#[cfg(unix)]
pub use connection::{Peer, peer, read_line, write_line};
#[cfg(unix)]
pub use folder::{FolderError, check, folders, in_first_usable};
#[cfg(unix)]
pub use identity::{ProcessIdentity, own_namespace};
pub use request::{
    LATEST_START, LONGEST_INTERVAL, LONGEST_RECORDING, MOST_STEPS, Question, RecordRequest, Request,
};
#[cfg(unix)]
pub use socket::{TOKEN, connect, listen, listening, socket_of};
pub use stacks::{StackFrame, ThreadStack};
#[cfg(unix)]
pub use user::{is_own_user, own_user};

/// The version of the protocol, which every request says. Raised when a field changes its meaning or goes away; a
/// new one does not raise it.
pub const VERSION: u32 = 1;

/// What a request may have, in bytes.
pub const LONGEST_REQUEST: u64 = 64 << 10;

/// What a line of an answer may have, in bytes: reports may be long.
pub const LONGEST_ANSWER: u64 = 256 << 20;
