//! Protocol between a running training process and its clients: lines of JSON over a Unix socket.
//!
//! The process creates a socket in one of several [folders](folders()) that only its user may
//! enter. The file name contains the process's whole [identity](ProcessIdentity),
//! `{process}-{namespace}-{start}.sock`, because containers may share such a folder.
//!
//! A client writes a [`Question`] as one line of at most [`LONGEST_REQUEST`] bytes. It reads lines,
//! each of which is an [`Answer`]. [`Answer::Recorded`] is followed by the number of bytes that it
//! states; further requests may follow on the same connection. The process replies to an invalid
//! request with [`Answer::Error`] and keeps the connection open.

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

/// Version of the protocol, which every request contains. It is raised when a field changes its
/// meaning or is removed, but not when a field is added.
pub const VERSION: u32 = 1;

/// Maximum length of a request in bytes.
pub const LONGEST_REQUEST: u64 = 64 << 10;

/// Maximum length of a line of a reply in bytes. Reports may be long.
pub const LONGEST_ANSWER: u64 = 256 << 20;
