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
    /// The live process cannot be queried.
    #[error(transparent)]
    Live(#[from] crate::live::Error),
    /// The file is not JSON, or it is truncated.
    #[error("{path} is not JSON, or not all of it", path = .path.display())]
    NotJson {
        /// Path of the file.
        path: PathBuf,
        /// Parse error with its position.
        #[source]
        error: serde_json::Error,
    },
    /// The JSON is neither a report nor a trace.
    #[error(
        "{path} is neither a report of mlprof (JSON with the field \"profiler\") nor a trace (JSON \
         with \"traceEvents\")",
        path = .path.display()
    )]
    NeitherReportNorTrace {
        /// Path of the file.
        path: PathBuf,
    },
    /// The report uses a newer schema version, in which fields may have other meanings.
    #[error(
        "{path} was written by a newer mlprof: its layout has the version {found}, and this mlprof \
         knows those up to {SCHEMA_VERSION}; install a newer one",
        path = .path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Schema version of the file.
        found: u64,
    },
    /// The report has missing or invalid fields, or an unknown kind.
    #[error("{path} is a report that this mlprof cannot understand", path = .path.display())]
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
        "this mlprof was built without Parquet: install it by `cargo install mlprof --features \
         parquet`"
    )]
    WithoutParquet,
    /// The request names a column, a threshold or a comparison that reports do not have.
    #[error(transparent)]
    Request(#[from] mlprof_report::Error),
    /// No row has enough data to detect a regression.
    #[error(
        "nothing can be judged, so --fail-above would let everything pass: there are too few calls, or \
         the reports do not say how calls vary; give three runs or more of each side"
    )]
    NothingJudged,
    /// The tables of lines do not support this sort key.
    #[error("lines cannot be sorted by {key:?}: use one of \"file\", \"time\"")]
    LinesKey {
        /// Requested sort key.
        key: String,
    },
    /// The tables of samples do not support this sort key.
    #[error("samples cannot be sorted by {key:?}: use one of \"self\", \"total\", \"waiting\"")]
    SamplesKey {
        /// Requested sort key.
        key: String,
    },
    /// The option does not apply to this kind of report.
    #[error("{option} is not for {what}: {instead}")]
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
        "the rows of {path} are told apart by {there}, not by {wanted}: a report holds one grouping, \
         which is chosen when it is recorded (`group_by_input_shapes`, `group_by_stack_n`, \
         `group_by_module` and `group_by_phase` of the Tensor profiler)",
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
    #[error("{what} cannot be converted to {format}: {reason}; it can be converted to {possible}")]
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
        "{path} is the file that is to be converted: name another one with --output",
        path = .path.display()
    )]
    SameFile {
        /// Path of the file.
        path: PathBuf,
    },
    /// The page would overwrite one of the reports.
    #[error("{path} is one of the reports: name another file with --html", path = .path.display())]
    PageOverReport {
        /// Path of the report.
        path: PathBuf,
    },
    /// Several output files cannot be written to one file or to standard output.
    #[error("there are {count} files to be written: name a folder with --output, not {path}",
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
