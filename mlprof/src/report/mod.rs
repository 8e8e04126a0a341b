//! `mlprof report`: prints reports as tables, writes them as an HTML page, or compares them.

pub(crate) mod comparison;
mod error;
mod findings;
mod group;
mod limit;
mod page;
pub(crate) mod read;
pub(crate) mod unpack;

use std::fmt::Write as _;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use anstyle::Style;
use mlprof_events::files::{self, StandardStream};
use mlprof_report::findings::Rules;
use mlprof_report::{Report, output};
use regex::Regex;

use crate::live;

pub use self::comparison::{FailAbove, InvalidFailAbove, REGRESSION};
pub use self::error::Error;
pub use self::findings::SetThreshold;
pub use self::group::Grouping;
pub use self::limit::Limit;
use self::read::Content;

/// Options that apply only to tables.
const OF_TABLES: [&str; 8] =
    ["sort", "limit", "filter", "action", "group_by", "layout", "unit", "skip_zero"];

/// Options that do not apply when reports are compared.
const NOT_COMPARED: [&str; 9] = [
    "sort",
    "action",
    "group_by",
    "layout",
    "unit",
    "skip_zero",
    "findings",
    "explain_rules",
    "threshold",
];

/// Prints the tables of reports that mlprof wrote as JSON, in another order or only in part, makes one
/// HTML page of them, or says what got slower and faster since other reports were made.
///
/// Exit status: 0; 1 if something got worse by more than --fail-above; 2 for what cannot be read,
/// printed or compared.
///
/// Columns to sort by, with --sort:
///
///   Simple      total, self, mean, calls, first, min, p50, p95, max, name,
///               read, written, cpu, waiting, switches, device
///   Advanced    cumulative, tottime, ncalls, pcalls, name, filename, line, nfl, stdname
///               (as Python's pstats; several with commas between them)
///   Tensor      calls, mean, total, self, memory, flops; or in torch's words
///               self_cpu_time_total, cpu_time_total, cpu_time, self_device_time_total,
///               device_time_total, device_time, self_cpu_memory_usage, cpu_memory_usage,
///               self_device_memory_usage, device_memory_usage, count, flops
///   samples     self, total, waiting (the functions that waited, with what they called)
///   lines       file (functions in the order of the source), time (the longest total last)
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The reports as JSON, compressed by gzip or not; or the number of a process, for what it has measured so far
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// The column to sort by
    #[arg(long, value_name = "KEY")]
    pub sort: Option<String>,
    /// How many rows: a number such as 10, a share such as 0.1 or 10%, or all
    #[arg(long, value_name = "N")]
    pub limit: Option<Limit>,
    /// Only what matches (Simple: actions; Advanced: file:line(function); lines: functions)
    ///
    /// A regular expression that may match anywhere in the name. --limit counts the rows that are
    /// left.
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
    /// Advanced: only the tables of actions whose name matches
    #[arg(long, value_name = "REGEX")]
    pub action: Option<Regex>,
    /// Tensor: what rows shall be told apart by: name, shapes, stack 5, module, phase
    ///
    /// Several with commas between them. A report holds one grouping; this one, or the command says
    /// which it is.
    #[arg(long, value_name = "GROUPING")]
    pub group_by: Option<Grouping>,
    /// Simple: how the report is laid out
    ///
    /// By default detailed if bytes or CPU time were measured, else as Lightning does.
    #[arg(long, value_name = "LAYOUT", value_enum)]
    pub layout: Option<Layout>,
    /// Lines: what times are printed in, in seconds, such as 1e-3 for milliseconds
    #[arg(long, value_name = "SECONDS")]
    pub unit: Option<f64>,
    /// Lines: leave functions out that never ran
    #[arg(long)]
    pub skip_zero: bool,
    /// What costs time that could be saved, in place of the tables
    #[arg(long, group = "form", conflicts_with_all = OF_TABLES)]
    pub findings: bool,
    /// What each rule for findings says: found, healthy and by which numbers, or what it lacks
    #[arg(long, group = "form", conflicts_with_all = OF_TABLES)]
    pub explain_rules: bool,
    /// Findings: sets a threshold of a rule, such as data-waiting.share=0.05 (--explain-rules lists
    /// them)
    #[arg(long, value_name = "NAME=NUMBER")]
    pub threshold: Vec<findings::SetThreshold>,
    /// Print the report as JSON, whole
    #[arg(long, group = "form", conflicts_with_all = OF_TABLES)]
    pub json: bool,
    /// Write all reports of all files as one HTML page: kinds, stages, ranks
    ///
    /// The page is one file that needs no network. Nothing is printed.
    #[arg(long, value_name = "OUT", group = "form", conflicts_with_all = OF_TABLES)]
    pub html: Option<PathBuf>,
    /// Compare with these reports: what got slower or faster since, and whether that is beyond what
    /// varies anyway
    ///
    /// FILE is after a change, these are before it. Several reports of one kind, stage and rank on a side
    /// are several runs; three or more of each side show what varies from run to run.
    #[arg(long, value_name = "BEFORE", num_args = 1.., conflicts_with_all = NOT_COMPARED)]
    pub against: Vec<PathBuf>,
    /// With --against: end with status 1 if something got worse by more, such as 5% or 0.05
    ///
    /// Only what is slower, or takes more memory, beyond what varies anyway, and is at least 1 % of the
    /// run. Each has a line on standard error.
    #[arg(long, value_name = "SHARE", requires = "against")]
    pub fail_above: Option<FailAbove>,
}

/// Layout of a Simple report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Layout {
    /// Lightning's table
    Lightning,
    /// Lightning's short table: mean and total
    Short,
    /// Self time, first call, spread, threads, bytes and CPU time
    Detailed,
}

/// Prints the reports on standard output, writes the page, or compares reports. Returns the exit
/// code.
///
/// # Errors
///
/// Returns an error in these cases:
///
/// - a file cannot be read or is not a report
/// - an option does not apply to the report
/// - no rows can be compared
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    if !arguments.against.is_empty() {
        return comparison::run(arguments);
    }
    show(arguments).map(|()| ExitCode::SUCCESS)
}

fn show(arguments: &Arguments) -> Result<(), Error> {
    if let Some(page) = &arguments.html {
        return write_page_of(&arguments.files, page, &findings::rules(&arguments.threshold)?);
    }
    let mut text = String::new();
    let mut all = Vec::new();
    for file in &arguments.files {
        let reports = reports_of(file)?;
        for report in &reports {
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&page::of(report, file, arguments)?);
        }
        all.extend(reports);
    }
    text.push_str(&findings::of_ranks(&all, arguments)?);
    print(&text, arguments.json)
}

/// Writes one page with the reports of all files.
fn write_page_of(files: &[PathBuf], page: &Path, rules: &Rules) -> Result<(), Error> {
    let reports = all_of(files)?;
    write_html(&files.iter().collect::<Vec<_>>(), page, || html_of(reports, rules))
}

/// Writes one page with the given reports and their findings.
///
/// # Errors
///
/// Returns an error if the page cannot be written.
pub(crate) fn write_page(reports: Vec<Report>, page: &Path) -> Result<(), Error> {
    write_html(&[], page, || html_of(reports, &Rules::new()))
}

fn html_of(reports: Vec<Report>, rules: &Rules) -> String {
    mlprof_report::page::html_by(&with_findings(reports, rules), rules)
}

fn with_findings(reports: Vec<Report>, rules: &Rules) -> Vec<Report> {
    reports.into_iter().map(|report| rules.annotate(report)).collect()
}

/// Returns the reports of all files, with their findings.
pub(crate) fn annotated(files: &[PathBuf]) -> Result<Vec<Report>, Error> {
    all_of(files).map(|reports| with_findings(reports, &Rules::new()))
}

/// Writes a page, but refuses to overwrite one of its input files.
pub(crate) fn write_html(
    files: &[&PathBuf],
    page: &Path,
    html: impl FnOnce() -> String,
) -> Result<(), Error> {
    if let Some(same) = files.iter().find(|file| is_same(file, page)) {
        return Err(Error::PageOverReport { path: same.to_path_buf() });
    }
    let html = html();
    output::write_file(page, |file| file.write_all(html.as_bytes()))
        .map_err(|error| Error::Write { path: page.to_owned(), error })
}

fn is_same(one: &Path, other: &Path) -> bool {
    let whole = |path: &Path| path.canonicalize().ok();
    one == other || (whole(one).is_some() && whole(one) == whole(other))
}

/// Returns the reports of all files.
fn all_of(files: &[PathBuf]) -> Result<Vec<Report>, Error> {
    let mut reports = Vec::new();
    for file in files {
        reports.extend(reports_of(file)?);
    }
    Ok(reports)
}

/// Returns the reports of a file, or the current reports of a live process.
pub(crate) fn reports_of(file: &Path) -> Result<Vec<Report>, Error> {
    if let Some(process) = live::process_named(file) {
        let values = live::reports(process)?;
        return values.into_iter().map(|value| read::report(file, value)).collect();
    }
    match read::read(file, unpack::trace)? {
        Content::Reports(reports) => Ok(reports),
        Content::Trace(_) => Err(Error::NotForThis {
            option: "mlprof report",
            what: "a trace".to_owned(),
            instead: "convert it with `mlprof convert --to`, or open it in Perfetto".to_owned(),
        }),
    }
}

/// Prints the text to standard output. Headings are bold on a terminal.
fn print(text: &str, is_json: bool) -> Result<(), Error> {
    let bold = Style::new().bold();
    let has_styles = AutoStream::choice(&io::stdout()) != ColorChoice::Never;
    let mut shown = String::with_capacity(text.len() + 1);
    for line in text.split_inclusive('\n') {
        let line = line.strip_suffix('\n').unwrap_or(line);
        let is_bold = has_styles && !is_json && page::is_heading(line);
        // Writing to a string cannot fail.
        let _ = match is_bold {
            true => writeln!(shown, "{bold}{line}{bold:#}"),
            false => writeln!(shown, "{line}"),
        };
    }
    heard(files::print(StandardStream::Output, shown.as_bytes()))
}

/// Converts a serialisation error into a write error for standard output.
pub(crate) fn json(made: Result<String, serde_json::Error>) -> Result<String, Error> {
    made.map_err(|error| Error::Write { path: "standard output".into(), error: error.into() })
}

/// Ignores a closed pipe, for example if `head` stops reading.
pub(crate) fn heard(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Write { path: "standard output".into(), error })
        }
        _ => Ok(()),
    }
}
