//! `mlprof what-if`: predicted step durations if something took less time.

use std::path::PathBuf;
use std::process::ExitCode;

use mlprof_analysis::Trace;
use mlprof_analysis::what_if::{self, Change, Improvement, Prediction, WhatIf};
use mlprof_events::files::{StandardStream, print};
use serde::Serialize;

use crate::report;
use crate::traces;

/// Default number of listed steps.
const ROWS: usize = 10;

/// Predict how long steps take if something takes less time
///
/// The command replays the dependency graph of the recorded steps with changed durations. The
/// critical path moves with the changes, so a gain ends where something else becomes critical.
///
/// NAME is the name of an op, kernel, module or action. It selects everything inside, and the
/// device work launched there. Three names select groups:
///
///   - data: waits for data
///   - collectives: communication between ranks
///   - copies: copies and fills of devices
///
/// Options can be combined and repeated. Each prediction has an interval, and the output states
/// what the graph does not know.
///
/// Exit codes:
///
///   0    success
///   2    an error: a trace or most of its events cannot be read, or a name occurs in no trace
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Traces (.json, .json.gz) of a process or of ranks, or folders of traces or of Parquet tables
    ///
    /// RANK=TRACE sets the rank of a trace.
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Name of work that takes no time
    #[arg(long, value_name = "NAME")]
    pub free: Vec<String>,
    /// Name of work, and the multiple of its time that it takes, such as candle::matmul=0.5
    #[arg(long, value_name = "NAME=FACTOR", value_parser = scale)]
    pub scale: Vec<(String, f64)>,
    /// Name of work that runs beside the other work of its step
    #[arg(long, value_name = "NAME")]
    pub overlap: Vec<String>,
    /// Rank that becomes as fast as the median of the other ranks
    #[arg(long, value_name = "RANK")]
    pub healthy_rank: Vec<u32>,
    /// Number of single improvements by 10 % to list, those that gain most first
    #[arg(long, value_name = "N")]
    pub best: Option<usize>,
    /// Maximum number of listed steps
    #[arg(long, value_name = "N", default_value_t = ROWS, conflicts_with = "json")]
    pub limit: usize,
    /// Print all results as JSON
    #[arg(long)]
    pub json: bool,
}

/// Error that prevents a prediction.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The traces cannot be found.
    #[error(transparent)]
    Find(#[from] traces::Error),
    /// A trace cannot be read, or the prediction cannot be printed.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// A change does not fit the traces.
    #[error(transparent)]
    Change(#[from] what_if::Error),
}

/// Prediction as printed in JSON.
#[derive(Serialize)]
struct Answer<'a> {
    #[serde(flatten)]
    prediction: &'a Prediction,
    #[serde(skip_serializing_if = "Option::is_none")]
    best: Option<&'a [Improvement]>,
}

/// Parses `NAME=FACTOR`.
fn scale(text: &str) -> Result<(String, f64), String> {
    let (name, factor) = text.rsplit_once('=').ok_or("expected NAME=FACTOR")?;
    let parsed: f64 = factor.parse().map_err(|_| format!("{factor} is not a number"))?;
    match parsed.is_finite() && parsed >= 0.0 && !name.is_empty() {
        true => Ok((name.to_owned(), parsed)),
        false => Err("expected a name and a factor of at least 0".to_owned()),
    }
}

fn changes(arguments: &Arguments) -> Vec<Change> {
    let free = arguments.free.iter().cloned().map(Change::Free);
    let scale = arguments.scale.iter().cloned().map(|(name, factor)| Change::Scale(name, factor));
    let overlap = arguments.overlap.iter().cloned().map(Change::Overlap);
    let healthy = arguments.healthy_rank.iter().copied().map(Change::HealthyRank);
    free.chain(scale).chain(overlap).chain(healthy).collect()
}

/// Prints the prediction on standard output and returns the exit code.
///
/// # Errors
///
/// Returns an error if a trace cannot be read, if a name or rank occurs in no trace, or if the
/// prediction cannot be printed.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let mut end = ExitCode::SUCCESS;
    let mut traces: Vec<Trace> = Vec::new();
    for source in traces::of(&arguments.traces)? {
        let trace = traces::read(&source)?;
        let status = traces::end_after_losses(&trace, &source.path(), "replayed");
        end = status.unwrap_or(end);
        traces.push(trace);
    }
    let changes = changes(arguments);
    let what_if = WhatIf::of(&traces);
    let prediction = what_if.predict(&changes)?;
    let best = arguments.best.map(|count| what_if.best(count, &changes)).transpose()?;
    let text = match arguments.json {
        true => {
            let answer = Answer { prediction: &prediction, best: best.as_deref() };
            report::json(serde_json::to_string(&answer))? + "\n"
        }
        false => {
            let best = best.map(|best| what_if::improvements_text(&best, &prediction));
            prediction.text(arguments.limit) + &best.unwrap_or_default()
        }
    };
    report::ignore_closed_pipe(print(StandardStream::Output, text.as_bytes()))?;
    Ok(end)
}

#[cfg(test)]
mod tests {
    use super::scale;

    #[test]
    fn scales_have_a_name_and_a_factor() {
        assert_eq!(scale("a=b=0.5"), Ok(("a=b".to_owned(), 0.5)));
        for text in ["a", "a=", "=1", "a=-1", "a=inf", "a=x"] {
            assert!(scale(text).is_err(), "{text}");
        }
    }
}
