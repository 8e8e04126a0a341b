//! `mlprof analyze`: questions asked of traces.

mod files;

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use profiler_analysis::kineto;
use profiler_analysis::{Analysis, Trace};
use serde::Serialize;

use self::files::Source;
use crate::report::{self, unpack};
use crate::tables;

/// Rows of each table unless another number is asked for.
const ROWS: usize = 10;

/// Answers questions about traces: mlprof's own, and those that PyTorch's profiler wrote.
///
/// What steps spend their time on, and how long they wait for data; steps that took much longer than the
/// others, and what differed in them; the critical path; what threads and devices did, and what they
/// waited for. Times are exact: parts add up to what they are parts of, to the nanosecond.
///
/// A trace whose end is missing is read as far as it goes. Exit status: 0; 2 if a trace cannot be read.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// The traces (.json, .json.gz), or folders with traces or with their tables (mlprof convert --to
    /// parquet)
    #[arg(value_name = "TRACE", required = true)]
    pub traces: Vec<PathBuf>,
    /// How many rows each table has
    #[arg(long, value_name = "N", default_value_t = ROWS, conflicts_with = "json")]
    pub limit: usize,
    /// Print everything as JSON
    #[arg(long)]
    pub json: bool,
    /// JSON: the step whose critical path is written stretch by stretch (by default that in the middle)
    #[arg(long, value_name = "NUMBER", requires = "json")]
    pub step: Option<u64>,
}

/// Why a trace cannot be analysed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder without traces.
    #[error("there is no trace in {path}: no file whose name ends in .json or .json.gz",
        path = .path.display())]
    NoTraces {
        /// Which folder.
        path: PathBuf,
    },
    /// It cannot be read, or the answers cannot be printed.
    #[error(transparent)]
    Report(#[from] report::Error),
}

/// What is printed of a trace as JSON.
#[derive(Serialize)]
struct Answered<'a> {
    file: String,
    #[serde(flatten)]
    analysis: &'a Analysis,
}

/// Prints the answers on standard output. How the command is to end: a trace that cannot be read is said,
/// and the others are answered for.
///
/// # Errors
///
/// If nothing can be printed, or a folder has no traces.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let files = files::of(&arguments.traces)?;
    let mut end = ExitCode::SUCCESS;
    let mut is_first = true;
    let print = |text: String| report::heard(write(&text));
    if arguments.json {
        print("{\"traces\":[".to_owned())?;
    }
    for source in &files {
        let analysis = match read(source) {
            Ok(trace) => Analysis::with_path_of(&trace, arguments.step),
            Err(error) => {
                profiler_report::output::say(format_args!("error: {error}"));
                end = ExitCode::from(2);
                continue;
            }
        };
        let between = match (is_first, arguments.json) {
            (true, _) => "",
            (false, true) => ",",
            (false, false) => "\n",
        };
        is_first = false;
        let name = source.path().display().to_string();
        let text = match arguments.json {
            true => json(&Answered { file: name, analysis: &analysis })?,
            false => format!("{name}\n{}", analysis.text(arguments.limit)),
        };
        print(format!("{between}{text}"))?;
    }
    if arguments.json {
        print("]}\n".to_owned())?;
    }
    Ok(end)
}

fn write(text: &str) -> std::io::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())?;
    out.flush()
}

fn json(answered: &Answered<'_>) -> Result<String, report::Error> {
    serde_json::to_string(answered).map_err(|error| report::Error::Write {
        path: "standard output".into(),
        error: error.into(),
    })
}

fn read(source: &Source) -> Result<Trace, report::Error> {
    let path = match source {
        Source::Tables(files) => return tables::read(files),
        Source::Json(path) => path,
    };
    let unreadable = |error| report::Error::Trace { path: path.clone(), error };
    let text = unpack::text(path).map_err(|error| unreadable(error.into()))?;
    kineto::read(text).map_err(unreadable)
}
