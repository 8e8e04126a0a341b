//! `mlprof top`: shows the state of trainings and refreshes it.

mod screen;
mod terminal;
mod view;

use std::collections::HashSet;
use std::io::IsTerminal;

use mlprof_events::live::{Answer, ProcessState, Request};
use mlprof_report::output::say;

use super::client::Client;
use super::{Error, ProcessName, print, table};

/// Show the state of running trainings, and refresh it
///
/// In a terminal, a screen shows all trainings with the actions and modules of their last steps.
/// Press ? for its keys. Otherwise, or with --plain, --json or --count, the command prints one line
/// per interval about one training: its stage, epoch and step, and the times of its last 128 steps.
/// Both also show the share of time spent waiting for data, the remaining time, and the memory of
/// the process.
///
/// While the command runs, mlprof measures the actions and modules of the training. --json prints
/// all of them.
///
/// The command ends when the training ends, on Ctrl-C, or after --count lines.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Process id, as printed by mlprof ps; optional if only one training can be inspected
    #[arg(value_name = "PID")]
    pub process: Option<ProcessName>,
    /// Refresh interval in seconds, from 0.05 to 5
    #[arg(long, value_name = "SECONDS", default_value_t = 1.0, value_parser = interval)]
    pub interval: f64,
    /// Number of lines after which the command ends
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Print each line as JSON, with the times of the last steps
    #[arg(long)]
    pub json: bool,
    /// Print lines even in a terminal
    #[arg(long)]
    pub plain: bool,
}

impl Arguments {
    /// Returns `true` if the full-screen view is used: both ends are terminals and no option
    /// requests plain lines.
    fn has_screen(&self) -> bool {
        let wants_lines = self.plain || self.json || self.count.is_some();
        let is_dumb = std::env::var_os("TERM").is_none_or(|term| term.is_empty() || term == "dumb");
        let (input, output) = (std::io::stdin(), std::io::stdout());
        !wants_lines && !is_dumb && input.is_terminal() && output.is_terminal()
    }
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        // The maximum is shorter than the time for which a process waits until its answer is read.
        Ok(seconds) if (0.05..=5.0).contains(&seconds) => Ok(seconds),
        _ => Err("expected a number of seconds between 0.05 and 5".to_owned()),
    }
}

/// Prints lines until the training ends.
///
/// # Errors
///
/// Returns an error if no process can be queried, or if a line cannot be written.
pub fn run(arguments: &Arguments) -> Result<(), Error> {
    let interval_milliseconds = (arguments.interval * 1e3) as u64;
    if arguments.has_screen() {
        let clients = match arguments.process {
            Some(process) => vec![Client::connect(process)?],
            None => Client::all_but(&HashSet::new())?,
        };
        if clients.is_empty() {
            return Err(Error::NoneListens);
        }
        return terminal::show(clients, interval_milliseconds, arguments.process.is_none());
    }
    let mut client = match arguments.process {
        Some(process) => Client::connect(process)?,
        None => only_one(Client::all_but(&HashSet::new())?)?,
    };
    let mut answer = client.ask(Request::Follow { interval_milliseconds, actions: true });
    let mut lines = 0;
    loop {
        let state = match answer {
            Ok(Answer::State(state)) => state,
            Ok(other) => return Err(Error::unexpected(client.process(), other)),
            Err(Error::Gone { process }) if lines > 0 => {
                say(format_args!("mlprof: process {process} has ended"));
                return Ok(());
            }
            Err(error) => return Err(error),
        };
        lines += 1;
        if !print(&text(&state, arguments.json)?)? || arguments.count == Some(lines) {
            return Ok(());
        }
        answer = client.answer();
    }
}

fn text(state: &ProcessState, is_json: bool) -> Result<String, Error> {
    if !is_json {
        return Ok(table::line(state) + "\n");
    }
    let json = serde_json::to_string(state);
    let json =
        json.map_err(|error| Error::Write { path: "standard output".into(), error: error.into() })?;
    Ok(json + "\n")
}

#[cfg_attr(not(unix), expect(unreachable_code, reason = "there are no clients"))]
fn only_one(mut all: Vec<Client>) -> Result<Client, Error> {
    match all.len() {
        0 => Err(Error::NoneListens),
        1 => Ok(all.remove(0)),
        _ => Err(Error::SeveralListen(all.iter().map(Client::process).collect())),
    }
}
