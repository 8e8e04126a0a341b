//! Commands that inspect running trainings: `mlprof ps`, `record`, `dump`, `top`, and `report` of a
//! process.

#[cfg(unix)]
mod client;
#[cfg(not(unix))]
#[path = "client_not_unix.rs"]
mod client;
pub mod dump;
mod error;
mod listed;
mod process_name;
pub mod ps;
mod ranks;
pub mod record;
mod stacks;
#[cfg(unix)]
mod survey;
mod table;
pub mod top;

use std::io::{self, ErrorKind};
use std::path::Path;

use mlprof_events::files::{self, StandardStream};
use mlprof_events::live::{Answer, Request};
use serde_json::Value;

pub use self::error::Error;
pub use self::process_name::ProcessName;
use client::Client;

/// Parses a command-line argument as a process name. Returns `None` if a file of that name exists.
pub(crate) fn process_named(word: &Path) -> Option<ProcessName> {
    let name = word.to_str()?.parse().ok()?;
    (!word.exists()).then_some(name)
}

/// Returns the current reports of a process as JSON. The list is never empty.
///
/// # Errors
///
/// Returns an error if the process cannot be queried, or if it has no profiler.
pub(crate) fn reports(process: ProcessName) -> Result<Vec<Value>, Error> {
    match Client::connect(process)?.ask(Request::Report)? {
        Answer::Report { reports } if reports.is_empty() => Err(Error::NothingMeasures { process }),
        Answer::Report { reports } => Ok(reports),
        other => Err(Error::unexpected(process, other)),
    }
}

/// Returns `false` if the reader has closed the pipe, as `head` does. This is not an error.
fn has_reader(written: io::Result<()>) -> Result<bool, Error> {
    match written {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(Error::Write { path: "standard output".into(), error }),
    }
}

fn print(text: &str) -> Result<bool, Error> {
    has_reader(files::print(StandardStream::Output, text.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_names_a_process_unless_there_is_such_a_file() {
        assert_eq!(process_named(Path::new("4711")), Some(4711.into()));
        assert_eq!(process_named(Path::new("report.json")), None);
        assert_eq!(process_named(Path::new("-1")), None);
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("4711");
        std::fs::write(&file, "{}").expect("written");
        assert_eq!(process_named(&file), None);
    }
}
