//! Error type of this crate.

use std::io;
use std::path::PathBuf;

use datafusion::error::DataFusionError;

use crate::questions;

/// Reason why a query has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder contains no tables.
    #[error(
        "cannot query {folder}: it has no trace tables; write them with `mlprof convert TRACE --to parquet -o \
         {folder}`"
    )]
    NoTables {
        /// Path of the folder.
        folder: String,
    },
    /// The query uses a table that does not exist.
    #[error("cannot find the table {name} in {folder}; available tables: {there}")]
    NoTable {
        /// Name of the table.
        name: String,
        /// Path of the folder.
        folder: String,
        /// Names of the existing tables.
        there: String,
    },
    /// The tables lack data that later versions of mlprof write.
    #[error(
        "cannot query the tables in {folder}: an earlier mlprof wrote them without {lacking}; convert the \
         traces again with `mlprof convert TRACE --to parquet -o {folder}`"
    )]
    Outdated {
        /// Path of the folder.
        folder: String,
        /// The missing table or column, such as `the column work`.
        lacking: String,
    },
    /// No file of a table is readable.
    #[error("cannot read the table {name} in {folder}: all its files are unreadable")]
    NoneReadable {
        /// Name of the table.
        name: String,
        /// Path of the folder.
        folder: String,
    },
    /// The files of a table have incompatible columns.
    #[error(
        "cannot read the table {name} in {folder}: its files have incompatible columns: {reason}"
    )]
    Mixed {
        /// Name of the table.
        name: String,
        /// Path of the folder.
        folder: String,
        /// Description of the conflict.
        reason: String,
    },
    /// The query name does not exist.
    #[error("cannot find the question {name}; available questions: {}", names())]
    NoQuestion {
        /// The given name.
        name: String,
    },
    /// The address has an unsupported scheme.
    #[error("cannot read {address}: give a local folder or an S3 address (s3://BUCKET/PREFIX)")]
    Remote {
        /// The given address.
        address: String,
    },
    /// There are no credentials for the object store.
    #[error(
        "cannot read {address}: there are no credentials; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
         AWS_SKIP_SIGNATURE=true for a public bucket"
    )]
    NoCredentials {
        /// The given address.
        address: String,
    },
    /// The object store does not have this bucket.
    #[error("cannot read {address}: {endpoint} has no such bucket")]
    NoBucket {
        /// The given address.
        address: String,
        /// Endpoint of the object store.
        endpoint: String,
    },
    /// The object store denies access.
    #[error("cannot read {address}: {endpoint} denies access: {reason}")]
    NotAllowed {
        /// The given address.
        address: String,
        /// Endpoint of the object store.
        endpoint: String,
        /// Reason stated by the object store.
        reason: String,
    },
    /// The object store cannot be reached, or its response is invalid.
    #[error("cannot read {address} from {endpoint}: {reason}")]
    Store {
        /// The given address.
        address: String,
        /// Endpoint of the object store.
        endpoint: String,
        /// Cause of the error.
        reason: String,
    },
    /// The address cannot be parsed.
    #[error("cannot read {address}: {reason}")]
    Address {
        /// The given address.
        address: String,
        /// Cause of the error.
        reason: String,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Path of the file or folder.
        path: String,
        /// Cause of the error.
        #[source]
        error: io::Error,
    },
    /// The result cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Path of the output.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        error: io::Error,
    },
    /// The extension of the output file does not determine a format.
    #[error("cannot determine the format of {path}: use the extension .csv, .json, .parquet or .txt, or give \
             --format", path = .path.display())]
    Output {
        /// Path of the output file.
        path: PathBuf,
    },
    /// Parquet output requires a file.
    #[error("cannot print Parquet to the terminal; give --output FILE")]
    NoFile,
    /// A cluster was requested, but the program was built without cluster support.
    #[error(
        "cannot use a cluster: this mlprof-sql was built without cluster support; install it with `cargo \
         install mlprof-sql --features cluster`"
    )]
    NoClusters,
    /// The address is not that of a scheduler.
    #[error(
        "cannot use {address} as a cluster scheduler: give an address of the form df://HOST:PORT"
    )]
    Scheduler {
        /// The given address.
        address: String,
    },
    /// The scheduler of the cluster does not respond.
    #[error("cannot reach the cluster at {address}: {reason}")]
    Cluster {
        /// Address of the scheduler.
        address: String,
        /// Cause of the error.
        reason: String,
    },
    /// The threads of the runtime cannot be started.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The query is invalid or cannot be executed.
    #[error("{}", in_one_line(.0))]
    Query(#[from] DataFusionError),
}

fn names() -> String {
    let names: Vec<_> = questions::ALL.iter().map(|question| question.name).collect();
    names.join(", ")
}

fn in_one_line(error: &DataFusionError) -> String {
    let text = error.strip_backtrace();
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
