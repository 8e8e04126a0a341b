//! Errors of reading, printing and converting results.

use std::io;
use std::path::PathBuf;

use mlprof_report::SCHEMA_VERSION;

/// Error that prevents printing or converting a result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file does not exist or cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// I/O error.
        #[source]
        error: io::Error,
    },
    /// The table of devices cannot be read.
    #[error(transparent)]
    Devices(#[from] crate::roofline::Error),
    /// The report cannot be compared with the peaks of its machine.
    #[error("cannot compare {path} with the peaks of its machine: {reason}", path = .path.display())]
    Roofline {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
    /// The live process cannot be queried.
    #[error(transparent)]
    Live(#[from] crate::live::Error),
    /// The file is not JSON, or it is truncated.
    #[error("cannot parse {path} as JSON", path = .path.display())]
    NotJson {
        /// Path of the file.
        path: PathBuf,
        /// Parse error with its position.
        #[source]
        error: serde_json::Error,
    },
    /// The JSON is neither a report nor a trace.
    #[error(
        "cannot read {path}: it is neither an mlprof report (JSON with the field \"profiler\") nor \
         a trace (JSON with \"traceEvents\")",
        path = .path.display()
    )]
    NeitherReportNorTrace {
        /// Path of the file.
        path: PathBuf,
    },
    /// The report uses a newer schema version, in which fields may have other meanings.
    #[error(
        "cannot read {path}: it has schema version {found}, and this mlprof supports versions up \
         to {SCHEMA_VERSION}; install a newer mlprof",
        path = .path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Schema version of the file.
        found: u64,
    },
    /// The report has missing or invalid fields, or an unknown kind.
    #[error("cannot parse the report {path}", path = .path.display())]
    NotUnderstood {
        /// Path of the file.
        path: PathBuf,
        /// Deserialisation error.
        #[source]
        error: serde_json::Error,
    },
    /// The trace cannot be read, or the file is not a trace.
    #[error("cannot read {path}", path = .path.display())]
    Trace {
        /// Path of the file.
        path: PathBuf,
        /// Read error.
        #[source]
        error: mlprof_analysis::Error,
    },
    /// The tables of a trace cannot be read.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Tables(#[from] mlprof_analysis::columns::ColumnsError),
    /// The command was built without Parquet support, which is optional because it requires a C
    /// compiler.
    #[error(
        "cannot use Parquet tables: this mlprof was built without Parquet support; reinstall it \
         with `cargo install mlprof --features parquet`"
    )]
    WithoutParquet,
    /// The request names a column, a threshold or a comparison that reports do not have.
    #[error(transparent)]
    Request(#[from] mlprof_report::Error),
    /// No row has enough data to detect a regression.
    #[error(
        "cannot judge any row, so --fail-above would always pass: there are too few calls, or the \
         reports do not state how much the duration of calls varies; provide at least three runs per side"
    )]
    NothingJudged,
    /// The tables of lines do not support this sort key.
    #[error("cannot sort lines by {key:?}: use \"file\" or \"time\"")]
    LinesKey {
        /// Requested sort key.
        key: String,
    },
    /// The tables of samples do not support this sort key.
    #[error("cannot sort samples by {key:?}: use \"self\", \"total\" or \"waiting\"")]
    SamplesKey {
        /// Requested sort key.
        key: String,
    },
    /// The option does not apply to this kind of report.
    #[error("cannot use {option} with {what}: {instead}")]
    NotForThis {
        /// Name of the option.
        option: &'static str,
        /// Description of the report or trace.
        what: String,
        /// Alternative that the message suggests.
        instead: String,
    },
    /// The report was recorded with another grouping, so its rows cannot be grouped as requested.
    #[error(
        "cannot group the rows of {path} by {wanted}: the report was recorded with the grouping \
         {there}; options of the Tensor profiler set the grouping (`group_by_input_shapes`, \
         `group_by_stack_n`, `group_by_module` and `group_by_phase`)",
        path = .path.display()
    )]
    Grouping {
        /// Path of the file.
        path: PathBuf,
        /// Grouping of the report.
        there: String,
        /// Requested grouping.
        wanted: String,
    },
    /// The conversion is not supported.
    #[error("cannot convert {what} to {format}: {reason}; supported formats: {possible}")]
    NoConversion {
        /// Description of the file's content.
        what: String,
        /// Requested format.
        format: &'static str,
        /// Reason why the conversion is not supported.
        reason: String,
        /// List of the supported formats.
        possible: String,
    },
    /// The output would overwrite the input.
    #[error(
        "cannot write {path}: it is the input file; choose another file with --output",
        path = .path.display()
    )]
    SameFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// The page would overwrite one of the reports.
    #[error("cannot write {path}: it is one of the input files; choose another file with --html",
        path = .path.display())]
    PageOverReport {
        /// Path of the report.
        path: PathBuf,
    },
    /// Several output files cannot be written to one file or to standard output.
    #[error("cannot write {count} files to {path}: choose a folder with --output",
        path = .path.display())]
    SeveralFiles {
        /// Number of output files.
        count: usize,
        /// Output path given by the user.
        path: PathBuf,
    },
    /// The result cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Path of the file, or `standard output`.
        path: PathBuf,
        /// I/O error.
        #[source]
        error: io::Error,
    },
}
