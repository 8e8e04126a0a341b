//! `mlprof ps`: which trainings of this user can be looked into.

use profiler_events::live::{Answer, ProcessState, Request};
use profiler_report::output::say;

use super::client::Client;
use super::{Error, print, table};

/// Lists the trainings of this user that listen: programs with one of mlprof's plugins that were started with
/// MLPROF_LIVE=1 in their environment.
///
/// STEPS/S is that of the last 128 steps. PROFILER is what the program measures with; mlprof record needs none.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Print everything as JSON: a list of processes, each with its trainings and the times of their last steps
    #[arg(long)]
    pub json: bool,
}

/// Prints the list.
///
/// # Errors
///
/// If the folder of the sockets is not this user's own, or the list cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let states = states()?;
    if arguments.json {
        let json = serde_json::to_string_pretty(&states);
        let json = json.map_err(|error| Error::Write {
            path: "standard output".into(),
            error: error.into(),
        })?;
        return print(&(json + "\n")).map(drop);
    }
    if states.is_empty() {
        say(Error::NoneListens);
        return Ok(());
    }
    print(&table::table(&states)).map(drop)
}

/// What all do that answer; who ends meanwhile is not there.
pub(super) fn states() -> Result<Vec<ProcessState>, Error> {
    let clients = Client::all()?;
    Ok(clients.into_iter().filter_map(|mut client| state(&mut client).ok()).collect())
}

/// What one does.
pub(super) fn state(client: &mut Client) -> Result<ProcessState, Error> {
    match client.ask(Request::State)? {
        Answer::State(state) => Ok(state),
        other => Err(Error::unexpected(client.process(), other)),
    }
}
