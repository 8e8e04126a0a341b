//! What a training that listens and those who ask it tell each other, by a Unix socket: lines of JSON.
//!
//! A process that listens has a socket `{process number}.sock` in a [folder](folder()) that only its user may
//! enter. Whoever connects writes a [`Question`] as one line, of at most [`LONGEST_REQUEST`] bytes, and reads lines,
//! each an [`Answer`]. After [`Answer::Recorded`] come as many bytes as it says; then further requests may follow on
//! the same connection. What cannot be understood is answered by [`Answer::Error`], and the connection stays.

mod activity;
mod answer;
#[cfg(unix)]
mod connection;
#[cfg(unix)]
mod folder;
mod request;
mod stacks;

pub use activity::{ActionState, Activity, CounterState, MemoryState, ThreadState};
pub use answer::{Answer, Dump, OpenAction, OpenThread, ProcessState, Recorded, TrainingState};
#[cfg(unix)]
pub use connection::{peer_user, read_line, write_line};
#[cfg(unix)]
pub use folder::{FolderError, check, folder, own_user, process_of, socket_of};
pub use request::{LATEST_START, LONGEST_RECORDING, MOST_STEPS, Question, RecordRequest, Request};
pub use stacks::{StackFrame, ThreadStack};

/// The version of the protocol, which every request says. Raised when a field changes its meaning or goes away; a
/// new one does not raise it.
pub const VERSION: u32 = 1;

/// What a request may have, in bytes.
pub const LONGEST_REQUEST: u64 = 64 << 10;

/// What a line of an answer may have, in bytes: reports may be long.
pub const LONGEST_ANSWER: u64 = 256 << 20;
