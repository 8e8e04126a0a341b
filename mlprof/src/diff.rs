//! `mlprof diff`: compares traces from before and after a change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mlprof_analysis::diff;
use mlprof_analysis::rollups::Rollups;

use regex::Regex;

use crate::report::comparison::{Shown, show};
use crate::report::{self, FailAbove, Limit};
use crate::traces;

/// Compare traces from before and after a change
///
/// The command compares the duration of the steps on both sides, and the actions, ops, modules and
/// kernels inside them. A row counts as slower or faster only if the difference exceeds the
/// variation between steps and during the run. mlprof report --against uses the same rule.
///
/// Each side is a trace, a folder of traces, or a folder of their Parquet tables, which mlprof
/// convert --to parquet writes. Of the tables, ops, modules, steps, stages and ranks suffice.
/// Traces may come from mlprof or from PyTorch's profiler.
///
/// Traces of several ranks are compared rank by rank. Cycles of one run form one series of steps.
/// Traces with the same step numbers are different runs.
///
/// Exit codes:
///
///   0    success
///   1    something got worse by more than --fail-above
///   2    an error: a trace or most of its events cannot be read, or the sides cannot be compared
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// Trace from before the change (.json, .json.gz), or folder
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// Trace from after the change (.json, .json.gz), or folder
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// Maximum number of rows per table: a number (10), a share (0.1 or 10%) or all [default: 20]
    #[arg(long, value_name = "N")]
    pub limit: Option<Limit>,
    /// Print only rows whose name matches REGEX
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
    /// Print the comparison as JSON
    #[arg(long, conflicts_with_all = ["limit", "filter"])]
    pub json: bool,
    /// Write the comparison to OUT as one HTML page, and print nothing
    #[arg(long, value_name = "OUT", conflicts_with_all = ["json", "limit", "filter"])]
    pub html: Option<PathBuf>,
    /// Exit with 1 if something got worse by more than SHARE, such as 5% or 0.05
    ///
    /// A row counts only if it is slower than its usual variation explains, and if it is at least 1
    /// % of the step time. Each such row is printed on standard error.
    #[arg(long, value_name = "SHARE")]
    pub fail_above: Option<FailAbove>,
}

/// Error that prevents the comparison.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The traces cannot be found.
    #[error(transparent)]
    Find(#[from] traces::Error),
    /// A trace cannot be read, or the result cannot be written.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// The two sides have no comparable data.
    #[error("{}", .0.to_string().replace("reports of the same profiler, stage", "traces of the same stage").replace("reports", "traces"))]
    Compare(#[from] mlprof_report::Error),
}

/// Compares both sides, prints or writes the result, and returns the exit code.
///
/// # Errors
///
/// Returns an error if a trace cannot be read, or if the sides have no comparable data.
pub fn run(arguments: &Arguments) -> Result<ExitCode, Error> {
    let (before, after) = (side(&arguments.before)?, side(&arguments.after)?);
    let comparison = diff::compare(&before, &after)?;
    let shown = Shown {
        json: arguments.json,
        html: arguments.html.as_deref(),
        filter: arguments.filter.as_ref(),
        limit: arguments.limit,
    };
    Ok(show(&comparison, &[&arguments.before, &arguments.after], &shown, arguments.fail_above)?)
}

fn side(path: &Path) -> Result<Vec<Rollups>, Error> {
    let sources = traces::of_rollups(path)?;
    sources.iter().map(|source| Ok(traces::read_rollups(source)?)).collect()
}
