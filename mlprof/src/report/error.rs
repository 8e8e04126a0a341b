//! What can go wrong when results are read, printed and converted.

use std::io;
use std::path::PathBuf;

use mlprof_report::SCHEMA_VERSION;

/// Why a result cannot be printed or converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file is not there, or cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// A process that cannot be looked into.
    #[error(transparent)]
    Live(#[from] crate::live::Error),
    /// The file is something else, or its end is missing.
    #[error("{path} is not JSON, or not all of it", path = .path.display())]
    NotJson {
        /// Which file.
        path: PathBuf,
        /// What is wrong, and where.
        #[source]
        error: serde_json::Error,
    },
    /// JSON of something else.
    #[error(
        "{path} is neither a report of mlprof (JSON with the field \"profiler\") nor a trace (JSON \
         with \"traceEvents\")",
        path = .path.display()
    )]
    NeitherReportNorTrace {
        /// Which file.
        path: PathBuf,
    },
    /// A later version changed what fields mean.
    #[error(
        "{path} was written by a newer mlprof: its layout has the version {found}, and this mlprof \
         knows those up to {SCHEMA_VERSION}; install a newer one",
        path = .path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// The file's version.
        found: u64,
    },
    /// Fields are missing or are something else, or the kind is not known.
    #[error("{path} is a report that this mlprof cannot understand", path = .path.display())]
    NotUnderstood {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        #[source]
        error: serde_json::Error,
    },
    /// A trace that cannot be read, or something that is none.
    #[error("cannot read {path}", path = .path.display())]
    Trace {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: mlprof_analysis::Error,
    },
    /// Tables of a trace that cannot be read.
    #[cfg(feature = "parquet")]
    #[error(transparent)]
    Tables(#[from] mlprof_analysis::columns::ColumnsError),
    /// Parquet takes a C compiler, so it is asked for.
    #[error(
        "this mlprof was built without Parquet: install it by `cargo install mlprof --features \
         parquet`"
    )]
    WithoutParquet,
    /// A column, a threshold or a comparison that reports do not have.
    #[error(transparent)]
    Request(#[from] mlprof_report::Error),
    /// Nobody can say whether anything got worse.
    #[error(
        "nothing can be judged, so --fail-above would let everything pass: there are too few calls, or \
         the reports do not say how calls vary; give three runs or more of each side"
    )]
    NothingJudged,
    /// The tables of lines have no such order.
    #[error("lines cannot be sorted by {key:?}: use one of \"file\", \"time\"")]
    LinesKey {
        /// What was asked for.
        key: String,
    },
    /// The tables of samples have no such order.
    #[error("samples cannot be sorted by {key:?}: use one of \"self\", \"total\", \"waiting\"")]
    SamplesKey {
        /// What was asked for.
        key: String,
    },
    /// An option that says nothing to a report of this kind.
    #[error("{option} is not for {what}: {instead}")]
    NotForThis {
        /// The option.
        option: &'static str,
        /// What was to be printed.
        what: String,
        /// What there is instead.
        instead: String,
    },
    /// Rows of a report cannot be told apart by what was not recorded.
    #[error(
        "the rows of {path} are told apart by {there}, not by {wanted}: a report holds one grouping, \
         which is chosen when it is recorded (`group_by_input_shapes`, `group_by_stack_n`, \
         `group_by_module` and `group_by_phase` of the Tensor profiler)",
        path = .path.display()
    )]
    Grouping {
        /// Which file.
        path: PathBuf,
        /// What they are told apart by.
        there: String,
        /// What was asked for.
        wanted: String,
    },
    /// There is no way from this to that.
    #[error("{what} cannot be converted to {format}: {reason}; it can be converted to {possible}")]
    NoConversion {
        /// What is in the file.
        what: String,
        /// What was asked for.
        format: &'static str,
        /// Why not.
        reason: String,
        /// All that there is.
        possible: String,
    },
    /// The input would be lost.
    #[error(
        "{path} is the file that is to be converted: name another one with --output",
        path = .path.display()
    )]
    SameFile {
        /// Which file.
        path: PathBuf,
    },
    /// The report would be lost.
    #[error("{path} is one of the reports: name another file with --html", path = .path.display())]
    PageOverReport {
        /// Which file.
        path: PathBuf,
    },
    /// Several files do not fit into one, or onto standard output.
    #[error("there are {count} files to be written: name a folder with --output, not {path}",
        path = .path.display())]
    SeveralFiles {
        /// How many.
        count: usize,
        /// What was named.
        path: PathBuf,
    },
    /// The result cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Which file, or `standard output`.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
}
