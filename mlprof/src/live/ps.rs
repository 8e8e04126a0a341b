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

/// Lists the trainings of this user that listen: programs with one of mlprof's plugins that were started with
/// MLPROF_LIVE=1 in their environment.
///
/// STEPS/S is that of the last 128 steps. PROFILER is what the program measures with; mlprof record
/// needs none. One that does not answer within three seconds is listed with the reason. A process
/// of another container has its number there and the inode of its PID namespace, 1@4026532201,
/// unless its number is known here.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Print everything as JSON: a list of processes, each with its trainings and the times of their last steps
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
