//! `mlprof report`: prints reports as tables, writes them as an HTML page, or compares them.

pub(crate) mod comparison;
mod error;
mod findings;
mod group;
mod limit;
mod page;
pub(crate) mod read;
mod roofline;
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

/// Print reports as tables, write them as an HTML page, or compare them
///
/// FILE is a report that mlprof wrote as JSON, or the id of a running process. The tables go to
/// standard output. --html writes a page instead, and --against compares two sets of reports.
///
/// Exit codes:
///
///   0    success
///   1    something got worse by more than --fail-above
///   2    an error: a file cannot be read, or reports cannot be printed, written or compared
///
/// Keys of --sort, by kind of report:
///
///   Simple      total, self, mean, calls, first, min, p50, p95, max, name,
///               read, written, cpu, waiting, switches, device
///   Advanced    cumulative, tottime, ncalls, pcalls, name, filename, line, nfl, stdname
///               (as in Python's pstats; separate several keys with commas)
///   Tensor      calls, mean, total, self, memory, flops; or the names of PyTorch's profiler:
///               self_cpu_time_total, cpu_time_total, cpu_time, self_device_time_total,
///               device_time_total, device_time, self_cpu_memory_usage, cpu_memory_usage,
///               self_device_memory_usage, device_memory_usage, count, flops
///   samples     self, total, waiting (functions that waited, including their callees)
///   lines       file (functions in source order), time (the longest total last)
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Reports as JSON, plain or gzip-compressed, or the id of a running process
    #[arg(value_name = "FILE", required = true)]
    pub files: Vec<PathBuf>,
    /// Sort key of the rows; --help lists the keys
    #[arg(long, value_name = "KEY")]
    pub sort: Option<String>,
    /// Maximum number of rows per table: a number (10), a share (0.1 or 10%) or all
    ///
    /// The default is 20 for ops and for comparisons, and all rows for other tables.
    #[arg(long, value_name = "N")]
    pub limit: Option<Limit>,
    /// Print only rows whose name matches REGEX
    ///
    /// Simple reports match actions, Advanced reports match file:line(function), and lines reports
    /// match functions. The expression may match any part of the name. --limit applies to the
    /// remaining rows.
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
    /// Advanced: print only the tables of actions whose name matches REGEX
    #[arg(long, value_name = "REGEX")]
    pub action: Option<Regex>,
    /// Tensor: expected grouping of the rows: name, shapes, stack 5, module or phase
    ///
    /// Separate several keys with commas. A report holds only the grouping with which it was
    /// recorded. If that is another one, the command fails and names it.
    #[arg(long, value_name = "GROUPING")]
    pub group_by: Option<Grouping>,
    /// Simple: layout of the table
    ///
    /// The default is detailed if the report contains bytes or CPU time, and lightning otherwise.
    #[arg(long, value_name = "LAYOUT", value_enum)]
    pub layout: Option<Layout>,
    /// Lines: time unit in seconds, such as 1e-3 for milliseconds [default: 1e-6]
    #[arg(long, value_name = "SECONDS")]
    pub unit: Option<f64>,
    /// Lines: omit functions that never ran
    #[arg(long)]
    pub skip_zero: bool,
    /// Print the findings, which are avoidable costs, instead of the tables
    #[arg(long, group = "form", conflicts_with_all = OF_TABLES)]
    pub findings: bool,
    /// Print the outcome of each finding rule instead of the tables
    ///
    /// A rule has found something, is healthy, or lacks inputs. The numbers behind the outcome are
    /// also printed.
    #[arg(long, group = "form", conflicts_with_all = OF_TABLES)]
    pub explain_rules: bool,
    /// Findings: value of a rule's threshold, such as data-waiting.share=0.05
    ///
    /// The option may be given more than once. --explain-rules lists all thresholds.
    #[arg(long, value_name = "NAME=NUMBER")]
    pub threshold: Vec<findings::SetThreshold>,
    /// Tensor: compare ops, modules and steps with the peaks of the machine, instead of the tables
    ///
    /// mlprof machine measures the peaks of this machine. A table has those of accelerators. With
    /// --json, the comparison is printed as JSON.
    #[arg(long, conflicts_with_all = ["html", "findings", "explain_rules", "against"])]
    pub roofline: bool,
    /// With --roofline: file (TOML or JSON) with the peaks of further accelerators
    #[arg(long, value_name = "FILE", requires = "roofline")]
    pub devices: Option<PathBuf>,
    /// Print the complete reports as JSON
    #[arg(long, group = "form", conflicts_with_all = OF_TABLES)]
    pub json: bool,
    /// Write the reports of all files to OUT as one HTML page, and print nothing
    ///
    /// The page contains all kinds, stages and ranks. It is a single file and needs no network.
    #[arg(long, value_name = "OUT", group = "form", conflicts_with_all = OF_TABLES)]
    pub html: Option<PathBuf>,
    /// Compare with these reports from before a change, and print what got slower or faster
    ///
    /// FILE is the report from after the change. Several reports of the same kind, stage and rank
    /// on one side are several runs. With at least three runs per side, the comparison also takes
    /// the variation between runs into account.
    #[arg(long, value_name = "BEFORE", num_args = 1.., conflicts_with_all = NOT_COMPARED)]
    pub against: Vec<PathBuf>,
    /// With --against: exit with 1 if something got worse by more than SHARE, such as 5% or 0.05
    ///
    /// A row counts only if it is slower or takes more memory than its usual variation explains,
    /// and if it is at least 1 % of the run. Each such row is printed on standard error.
    #[arg(long, value_name = "SHARE", requires = "against")]
    pub fail_above: Option<FailAbove>,
}

/// Layout of a Simple report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
pub enum Layout {
    /// Lightning's table
    Lightning,
    /// Lightning's short table, with mean and total
    Short,
    /// Table with self time, first call, spread, threads, bytes and CPU time
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
    if arguments.roofline {
        return roofline::run(arguments);
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
    ignore_closed_pipe(files::print(StandardStream::Output, shown.as_bytes()))
}

/// Converts a serialisation error into a write error for standard output.
pub(crate) fn json(made: Result<String, serde_json::Error>) -> Result<String, Error> {
    made.map_err(|error| Error::Write { path: "standard output".into(), error: error.into() })
}

/// Ignores a closed pipe, for example if `head` stops reading.
pub(crate) fn ignore_closed_pipe(written: io::Result<()>) -> Result<(), Error> {
    match written {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(Error::Write { path: "standard output".into(), error })
        }
        _ => Ok(()),
    }
}
