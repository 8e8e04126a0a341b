//! `mlprof ps`: lists the trainings of this user that can be inspected.

use mlprof_events::live::{Answer, ProcessState, Request};
use mlprof_report::output::say;

use super::client::Client;
#[cfg(not(unix))]
use super::client::survey;
use super::listed::Listed;
#[cfg(unix)]
use super::survey::survey;
use super::{Error, print, table};

/// List the running trainings of this user that mlprof can inspect
///
/// A program is listed if it contains one of mlprof's plugins and was started with MLPROF_LIVE=1 in
/// its environment, or if `mlprof run --live` started it.
///
/// Columns:
///
///   PID         process id; 1@4026532201 is process 1 of another container, whose PID namespace
///               has that inode
///   STEPS/S     rate of the last 128 steps
///   PROFILER    profilers of the program; mlprof record needs none
///
/// A process that does not answer within three seconds is listed with the reason.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Print the processes as JSON, with their trainings and the times of the last steps
    #[arg(long)]
    pub json: bool,
}

/// Prints the list of trainings.
///
/// # Errors
///
/// Returns an error if the socket folder does not belong to this user, or if the list cannot be
/// written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let listed = survey()?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&listed);
        let json = json.map_err(|error| Error::Write {
            path: "standard output".into(),
            error: error.into(),
        })?;
        return print(&(json + "\n")).map(drop);
    }
    if listed.is_empty() {
        say(Error::NoneListens);
        return Ok(());
    }
    print(&table::table(&listed)).map(drop)
}

/// Returns the state of all processes that answer. Processes that end meanwhile are left out.
pub(super) fn answered() -> Result<Vec<Listed>, Error> {
    Ok(survey()?.into_iter().filter(|listed| listed.unanswered.is_none()).collect())
}

/// Queries the state of one process.
pub(super) fn state(client: &mut Client) -> Result<ProcessState, Error> {
    match client.ask(Request::State)? {
        Answer::State(state) => Ok(state),
        other => Err(Error::unexpected(client.process(), other)),
    }
}
