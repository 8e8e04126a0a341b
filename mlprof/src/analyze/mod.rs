//! `mlprof analyze`: analysis of one or more traces.

use mlprof_events::error_chain::Chain;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mlprof_analysis::Analysis;
use mlprof_analysis::page::Page;
use mlprof_analysis::ranks::{RankFacts, Ranks};
use mlprof_events::files::{StandardStream, print};
use mlprof_report::findings::text::explained;
use mlprof_report::output::say;
use serde::Serialize;

use crate::report;
use crate::traces::{self, Source};

/// Default number of rows per table.
const ROWS: usize = 10;

/// Answers questions about traces: mlprof's own, and those that PyTorch's profiler wrote.
///
/// What costs time that could be saved, in up to five sentences. What steps spend their time on,
/// and how long they wait for data; steps that took much longer than the others, and what differed
/// in them; the critical path; what threads and devices did, and what they waited for; of several
/// ranks also who holds the others up, as `mlprof merge` says it. Times are exact: parts add up to
/// what they are parts of, to the nanosecond.
///
/// A trace whose end is missing is read as far as it goes, and an event that cannot be read costs
/// that event; notes state what is missing. Exit status: 0; 2 if a trace cannot be read, if most of
/// its events cannot be read, or if traces of several ranks cannot be put together. What can be
/// answered is answered all the same.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The traces (.json, .json.gz), or folders with traces or with their tables (mlprof convert --to
    /// parquet); RANK=TRACE gives the rank of one that does not state it (distributedInfo, or rank3
    /// in its name)
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// How many rows each table has
    #[arg(long, value_name = "N", default_value_t = ROWS, conflicts_with = "form")]
    pub limit: usize,
    /// Print everything as JSON
    #[arg(long, group = "form")]
    pub json: bool,
    /// Print what each rule for findings says: found, healthy and by which numbers, or what it
    /// lacks
    #[arg(long, group = "form")]
    pub explain_rules: bool,
    /// Write all answers as one HTML page; nothing is printed
    ///
    /// The page is one file that needs no network, of 3 MB at most. Of more than 16 traces the first 16 have a
    /// section each.
    #[arg(long, value_name = "OUT", group = "form")]
    pub html: Option<PathBuf>,
    /// With --html: reports of the same run (JSON), which stand above the answers
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "html")]
    pub report: Vec<PathBuf>,
    /// JSON, HTML: the step whose critical path is there stretch by stretch (by default that in the middle)
    #[arg(long, value_name = "NUMBER", requires = "form")]
    pub step: Option<u64>,
}

/// Error that prevents the analysis.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The traces cannot be found.
    #[error(transparent)]
    Find(#[from] traces::Error),
    /// The answers cannot be printed.
    #[error(transparent)]
    Report(#[from] report::Error),
}

/// Analysis of one trace as printed in JSON.
#[derive(Serialize)]
struct Answered<'a> {
    file: String,
    #[serde(flatten)]
    analysis: &'a Analysis,
}

/// Prints the analyses on standard output, or writes them as an HTML page. Returns the exit code.
/// Unreadable traces are reported, and the other traces are still analysed.
///
/// # Errors
///
/// Returns an error if the output cannot be printed or written, or if a folder contains no traces.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let sources = traces::of(&arguments.traces)?;
    match &arguments.html {
        Some(page) => write_page(arguments, &sources, page),
        None => print_all(arguments, &sources),
    }
}

fn print_all(arguments: &Arguments, sources: &[Source]) -> Result<ExitCode, Error> {
    let print = |text: &str| report::heard(write(text));
    // The JSON document is printed only when it is complete, so a failure prints no partial
    // document.
    let mut json = String::from("{\"traces\":[");
    let mut is_first = true;
    let (ranks, end) = answers(sources, arguments.step, |file, answer| {
        let Ok(analysis) = answer else { return Ok(()) };
        let is_next = !std::mem::take(&mut is_first);
        if arguments.json {
            json += if is_next { "," } else { "" };
            json += &report::json(serde_json::to_string(&Answered {
                file: file.to_owned(),
                analysis,
            }))?;
            return Ok(());
        }
        let between = if is_next { "\n" } else { "" };
        let answers = match arguments.explain_rules {
            true => explained(&analysis.explain()),
            false => analysis.text(arguments.limit),
        };
        Ok(print(&format!("{between}{file}\n{answers}"))?)
    })?;
    match (&ranks, arguments.json) {
        (Some(ranks), true) => {
            json += "],\"ranks\":";
            json += &report::json(serde_json::to_string(ranks))?;
            print(&(json + "}\n"))?;
        }
        (None, true) => print(&(json + "]}\n"))?,
        (Some(ranks), false) => print(&format!("\n{}", ranks.text()))?,
        (None, false) => {}
    }
    Ok(end)
}

/// Writes all analyses as one page, below the given reports. No page is written if no trace can be
/// read.
fn write_page(arguments: &Arguments, sources: &[Source], page: &Path) -> Result<ExitCode, Error> {
    let reports = report::annotated(&arguments.report)?;
    let mut answered = Page::default();
    let mut count = 0;
    let (ranks, end) = answers(sources, arguments.step, |file, answer| {
        match answer {
            Ok(analysis) => {
                answered.add(file, analysis);
                count += 1;
            }
            Err(error) => answered.note(format!("a trace is missing here: {}", Chain(error))),
        }
        Ok(())
    })?;
    if count > 0 {
        let of_traces: Vec<PathBuf> = sources.iter().map(Source::path).collect();
        let read: Vec<&PathBuf> = of_traces.iter().chain(&arguments.report).collect();
        report::write_html(&read, page, || answered.html(&reports, ranks.as_ref()))?;
    }
    Ok(end)
}

/// Reads the traces one after the other and passes each analysis, or the read error, to `each`.
/// Returns the analysis across ranks and the exit code.
fn answers(
    sources: &[Source],
    step: Option<u64>,
    mut each: impl FnMut(&str, Result<&Analysis, &report::Error>) -> Result<(), Error>,
) -> Result<(Option<Ranks>, ExitCode), Error> {
    let mut end = ExitCode::SUCCESS;
    let mut ranks = Vec::new();
    for source in sources {
        let file = source.path().display().to_string();
        match traces::read(source) {
            Ok(trace) => {
                let status = traces::end_after_losses(&trace, &source.path(), "analysed");
                end = status.unwrap_or(end);
                if sources.len() > 1 {
                    ranks.push(RankFacts::of(file.as_str(), &trace));
                }
                each(&file, Ok(&Analysis::with_path_of(&trace, step)))?;
            }
            Err(error) => {
                say(format_args!("error: {}", Chain(&error)));
                end = ExitCode::from(2);
                each(&file, Err(&error))?;
            }
        }
    }
    let ranks = together(&ranks).unwrap_or_else(|error| {
        say(format_args!("error: {}", Chain(&error)));
        end = ExitCode::from(2);
        None
    });
    Ok((ranks, end))
}

fn write(text: &str) -> std::io::Result<()> {
    print(StandardStream::Output, text.as_bytes())
}

/// Returns the analysis across ranks if the traces belong to more than one rank.
fn together(facts: &[RankFacts]) -> Result<Option<Ranks>, mlprof_analysis::Error> {
    let several = facts.windows(2).any(|pair| pair[0].rank() != pair[1].rank());
    several.then(|| Ranks::of(facts)).transpose()
}
