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
        "there are no tables of traces in {folder}: `mlprof convert TRACE --to parquet -o {folder}` writes them"
    )]
    NoTables {
        /// Path of the folder.
        folder: String,
    },
    /// The query uses a table that does not exist.
    #[error("there is no table {name} in {folder}; there are {there}")]
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
        "cannot answer from the tables in {folder}: an earlier mlprof wrote them without {lacking}; convert the \
         traces again with `mlprof convert TRACE --to parquet -o {folder}`"
    )]
    Outdated {
        /// Path of the folder.
        folder: String,
        /// The missing table or column, such as `the column work`.
        lacking: String,
    },
    /// No file of a table is readable.
    #[error("no file of the table {name} in {folder} can be read")]
    NoneReadable {
        /// Name of the table.
        name: String,
        /// Path of the folder.
        folder: String,
    },
    /// The files of a table have incompatible columns.
    #[error("the files of the table {name} in {folder} do not fit together: {reason}")]
    Mixed {
        /// Name of the table.
        name: String,
        /// Path of the folder.
        folder: String,
        /// Description of the conflict.
        reason: String,
    },
    /// The query name does not exist.
    #[error("there is no question {name}; there are {}", names())]
    NoQuestion {
        /// The given name.
        name: String,
    },
    /// The address has an unsupported scheme.
    #[error(
        "{address} is neither a folder of this machine nor in S3 (s3://BUCKET/PREFIX), and others are not read"
    )]
    Remote {
        /// The given address.
        address: String,
    },
    /// There are no credentials for the object store.
    #[error(
        "there are no credentials for {address}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
         AWS_SKIP_SIGNATURE=true for a bucket that anybody may read"
    )]
    NoCredentials {
        /// The given address.
        address: String,
    },
    /// The object store does not have this bucket.
    #[error("there is no bucket for {address}, as {endpoint} says")]
    NoBucket {
        /// The given address.
        address: String,
        /// Endpoint of the object store.
        endpoint: String,
    },
    /// The object store denies access.
    #[error("{endpoint} does not allow that {address} is read: {reason}")]
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
    #[error("{address} is no address of tables: {reason}")]
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
    #[error("{path}: the name must end in .csv, .json, .parquet or .txt, or --format say it", path = .path.display())]
    Output {
        /// Path of the output file.
        path: PathBuf,
    },
    /// Parquet output requires a file.
    #[error("Parquet is written into a file: --output FILE")]
    NoFile,
    /// A cluster was requested, but the program was built without cluster support.
    #[error(
        "this mlprof-sql was built without clusters: `cargo install mlprof-sql --features cluster` builds one with them"
    )]
    NoClusters,
    /// The address is not that of a scheduler.
    #[error("{address} is no scheduler of a cluster: its address is df://HOST:PORT")]
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
