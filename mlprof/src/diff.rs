//! `mlprof diff`: compares traces from before and after a change.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use mlprof_analysis::diff;
use mlprof_analysis::rollups::Rollups;

use regex::Regex;

use crate::report::comparison::{Shown, show};
use crate::report::{self, FailAbove, Limit};
use crate::traces;

/// Says what got slower or faster between two traces, mlprof's own or those of PyTorch's profiler.
///
/// The steps of one side are compared with the steps of the other: how long they took, and in them actions, ops,
/// modules and kernels. A row is slower or faster only beyond what varies from step to step and while the
/// program runs, by the rule of mlprof report --against.
///
/// Each side is a trace, a folder of traces, or a folder of their tables (mlprof convert --to parquet), of which
/// ops, modules, steps, stages and ranks are enough. Traces of several ranks are compared rank by rank; cycles of
/// one run are one series of steps; traces with steps of one number are several runs.
///
/// Exit status: 0; 1 if something got worse by more than --fail-above; 2 if a trace or most of its
/// events cannot be read, or the sides cannot be compared.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct Arguments {
    /// What was before the change (.json, .json.gz, or a folder)
    #[arg(value_name = "BEFORE")]
    pub before: PathBuf,
    /// What is after it
    #[arg(value_name = "AFTER")]
    pub after: PathBuf,
    /// How many rows each table has: a number such as 10, a share such as 0.1 or 10%, or all
    #[arg(long, value_name = "N")]
    pub limit: Option<Limit>,
    /// Only rows whose name matches
    #[arg(long, value_name = "REGEX")]
    pub filter: Option<Regex>,
    /// Print everything as JSON
    #[arg(long, conflicts_with_all = ["limit", "filter"])]
    pub json: bool,
    /// Write it as one HTML page; nothing is printed
    #[arg(long, value_name = "OUT", conflicts_with_all = ["json", "limit", "filter"])]
    pub html: Option<PathBuf>,
    /// End with status 1 if something got worse by more, such as 5% or 0.05
    ///
    /// Only what is slower beyond what varies anyway, and is at least 1 % of the time of steps. Each has a line on
    /// standard error.
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
