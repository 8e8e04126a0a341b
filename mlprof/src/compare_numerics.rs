//! `mlprof compare-numerics`: finds the first difference between the numbers of two runs.

use std::collections::HashMap;
use std::io::{self, BufReader};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mlprof_analysis::numerics::{NumericsOptions, NumericsRecord, compare, html, read, text};
use mlprof_events::files::{StandardStream, open_input, print as print_to};
use mlprof_report::output::say;

use crate::report::{self, Limit};

/// Find the first difference between the numbers of two runs
///
/// The command prints the first module, loss, gradient or parameter that differs, and the distance
/// of all tensors. Each side is a record of the numerics profiler (.numerics.jsonl).
///
/// First, it reports whether both runs began with the same seed, batches and parameters, if the
/// records contain them. Then it pairs the tensors of each step by their place in the model and by
/// their order, so that modules of candle and tch match.
///
/// Tensors with equal hashes are equal. Other tensors differ in these cases:
///
///   - their shapes differ
///   - their NaN and infinite numbers differ, or may differ
///   - their distance exceeds the tolerance; with --again, it must also exceed three times the
///     variation between runs of the reference
///
/// Steps that only one side has are listed.
///
/// Exit codes:
///
///   0    the numbers are equal
///   1    something differs, one side lacks steps of the other, or nothing can be compared
///   2    an error: a file cannot be read or written
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Record of the reference run
    #[arg(value_name = "REFERENCE")]
    pub reference: PathBuf,
    /// Record of the other run
    #[arg(value_name = "OTHER")]
    pub other: PathBuf,
    /// Record of another run of the reference, which shows the variation between runs
    ///
    /// The option may be given more than once.
    #[arg(long, value_name = "RECORD")]
    pub again: Vec<PathBuf>,
    /// JSON file that maps names of the other run to names of the reference
    ///
    /// For example, {"features.0": "conv1"} also applies to everything inside features.0.
    #[arg(long, value_name = "FILE")]
    pub names: Option<PathBuf>,
    /// Relative tolerance of numbers [default: depends on the element type]
    ///
    /// The default is 1e-4 for f32 and 0 for integers, for example.
    #[arg(long, value_name = "SHARE", value_parser = part)]
    pub tolerance: Option<f64>,
    /// Maximum number of rows: a number (10), a share (0.1 or 10%) or all [default: 20]
    #[arg(long, value_name = "N")]
    pub limit: Option<Limit>,
    /// Print the comparison as JSON
    #[arg(long, conflicts_with = "limit")]
    pub json: bool,
    /// Write the comparison to OUT as one HTML page, and print nothing
    #[arg(long, value_name = "OUT", conflicts_with_all = ["json", "limit"])]
    pub html: Option<PathBuf>,
}

fn part(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part.is_finite() && part >= 0.0 => Ok(part),
        _ => Err("expected a number of at least 0, such as 1e-3".to_owned()),
    }
}

/// Error that prevents the comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A record cannot be read.
    #[error("cannot read {path}: {error}", path = .path.display())]
    Read {
        /// Path of the record.
        path: PathBuf,
        /// Read error.
        error: mlprof_analysis::Error,
    },
    /// The file with names cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Names {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        #[source]
        error: io::Error,
    },
    /// The page cannot be written.
    #[error(transparent)]
    Page(#[from] report::Error),
    /// The result cannot be printed.
    #[error(transparent)]
    Print(#[from] io::Error),
}

/// Compares the records, prints the result, and returns the exit code.
///
/// # Errors
///
/// Returns an error if a file cannot be read, or if the result cannot be printed or written.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let (reference, other) = (record(&arguments.reference)?, record(&arguments.other)?);
    let again: Vec<_> =
        arguments.again.iter().map(|path| record(path)).collect::<Result<_, _>>()?;
    let names = arguments.names.as_deref().map_or_else(|| Ok(HashMap::new()), names)?;
    let options = NumericsOptions { names, tolerance: arguments.tolerance };
    let comparison = compare(&reference, &other, &again, &options);
    if let Some(page) = &arguments.html {
        let mut files = vec![&arguments.reference, &arguments.other];
        files.extend(arguments.again.iter().chain(&arguments.names));
        report::write_html(&files, page, || html(&comparison))?;
    } else if arguments.json {
        print(&(serde_json::to_string_pretty(&comparison).map_err(io::Error::from)? + "\n"))?;
    } else {
        let rows = arguments.limit.map_or(20, |limit| limit.of(comparison.places.len()));
        print(&text(&comparison, rows))?;
    }
    Ok(if comparison.is_equal() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints to standard output. A closed pipe does not count as an error.
fn print(text: &str) -> io::Result<()> {
    match print_to(StandardStream::Output, text.as_bytes()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        written => written,
    }
}

fn record(path: &Path) -> Result<NumericsRecord, Error> {
    let failed = |error| Error::Read { path: path.to_owned(), error };
    let file = open_input(path).map_err(|error| failed(error.into()))?;
    let record = read(BufReader::new(file)).map_err(failed)?;
    if record.is_cut_off {
        say(format_args!(
            "note: the last line of {} is truncated, for example because the run was killed; the \
             record is read up to its last complete step",
            path.display()
        ));
    }
    Ok(record)
}

fn names(path: &Path) -> Result<HashMap<String, String>, Error> {
    let read =
        || -> io::Result<_> { Ok(serde_json::from_reader(BufReader::new(open_input(path)?))?) };
    read().map_err(|error| Error::Names { path: path.to_owned(), error })
}
