//! `mlprof analyze`: analysis of one or more traces.

mod roofline;

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

/// Analyze traces of mlprof or of PyTorch's profiler
///
/// For each trace, the command prints:
///
///   - up to five findings, which are avoidable costs
///   - the time of the steps, and how long they wait for data
///   - steps that took much longer than the others, and how they differed
///   - the critical path
///   - the work and the waits of threads and devices
///
/// For several ranks, it also prints which rank delays the others, like mlprof merge. Times are
/// exact to the nanosecond: parts add up to their total.
///
/// A trace with a missing end is read up to that point. Unreadable events are skipped. Notes state
/// what is missing.
///
/// Exit codes:
///
///   0    success
///   2    an error: a trace or most of its events cannot be read, or the traces of several ranks
///        cannot be combined
///
/// The readable traces are analyzed in either case.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Traces (.json, .json.gz), or folders of traces or of their Parquet tables
    ///
    /// mlprof convert --to parquet writes the tables. The rank of a trace is stored in the file, or
    /// its file name contains it, as in rank3. RANK=TRACE sets the rank of any other trace.
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// Maximum number of rows per table; the last row stands for the other ones
    ///
    /// It also stands for rows below 0.1 % of the whole.
    #[arg(long, value_name = "N", default_value_t = ROWS, conflicts_with = "form")]
    pub limit: usize,
    /// Print all rows of each table
    #[arg(long, conflicts_with_all = ["form", "limit"])]
    pub all_rows: bool,
    /// Compare ops and steps with the peaks of the device or of this machine, instead of the tables
    ///
    /// mlprof machine measures the peaks of this machine. A table has those of accelerators. With
    /// --json, the comparison is printed as JSON.
    #[arg(long, conflicts_with_all = ["explain_rules", "html"])]
    pub roofline: bool,
    /// With --roofline: file (TOML or JSON) with the peaks of further accelerators
    #[arg(long, value_name = "FILE", requires = "roofline")]
    pub devices: Option<PathBuf>,
    /// Print all results as JSON
    #[arg(long, group = "form")]
    pub json: bool,
    /// Print the outcome of each finding rule instead of the tables
    ///
    /// A rule has found something, is healthy, or lacks inputs. The numbers behind the outcome are
    /// also printed.
    #[arg(long, group = "form")]
    pub explain_rules: bool,
    /// Write all results to OUT as one HTML page, and print nothing
    ///
    /// The page is a single file of at most 3 MB and needs no network. The first 16 traces have a
    /// section each.
    #[arg(long, value_name = "OUT", group = "form")]
    pub html: Option<PathBuf>,
    /// With --html: reports of the same run (JSON), shown above the results
    #[arg(long, value_name = "FILE", num_args = 1.., requires = "html")]
    pub report: Vec<PathBuf>,
    /// With --json or --html: number of the step whose critical path is listed in full
    ///
    /// The default is the step in the middle.
    #[arg(long, value_name = "N", requires = "form")]
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
    if arguments.roofline {
        return roofline::print_all(arguments, &sources);
    }
    match &arguments.html {
        Some(page) => write_page(arguments, &sources, page),
        None => print_all(arguments, &sources),
    }
}

fn print_all(arguments: &Arguments, sources: &[Source]) -> Result<ExitCode, Error> {
    let print = |text: &str| report::ignore_closed_pipe(write(text));
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
            false if arguments.all_rows => analysis.text(usize::MAX),
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
            Err(error) => answered.note(format!("a trace is missing: {}", Chain(error))),
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
