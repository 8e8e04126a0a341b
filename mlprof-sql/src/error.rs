//! Why there is no answer.

use std::io;
use std::path::PathBuf;

use datafusion::error::DataFusionError;

use crate::questions;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder without tables.
    #[error(
        "there are no tables of traces in {folder}: `mlprof convert TRACE --to parquet -o {folder}` writes them"
    )]
    NoTables {
        /// Which folder.
        folder: String,
    },
    /// A query asks a table that is not there.
    #[error("there is no table {name} in {folder}; there are {there}")]
    NoTable {
        /// Which table.
        name: String,
        /// In which folder.
        folder: String,
        /// Those that there are.
        there: String,
    },
    /// The tables lack something that later versions of mlprof write.
    #[error(
        "cannot answer from the tables in {folder}: an earlier mlprof wrote them without {lacking}; convert the \
         traces again with `mlprof convert TRACE --to parquet -o {folder}`"
    )]
    Outdated {
        /// The folder.
        folder: String,
        /// The table or the column, such as `the column work`.
        lacking: String,
    },
    /// Nothing of a table can be read.
    #[error("no file of the table {name} in {folder} can be read")]
    NoneReadable {
        /// Which table.
        name: String,
        /// In which folder.
        folder: String,
    },
    /// Files of a table do not fit together.
    #[error("the files of the table {name} in {folder} do not fit together: {reason}")]
    Mixed {
        /// Which table.
        name: String,
        /// In which folder.
        folder: String,
        /// What does not fit.
        reason: String,
    },
    /// A name that is none of a question.
    #[error("there is no question {name}; there are {}", names())]
    NoQuestion {
        /// The name.
        name: String,
    },
    /// An address of what cannot be read.
    #[error(
        "{address} is neither a folder of this machine nor in S3 (s3://BUCKET/PREFIX), and others are not read"
    )]
    Remote {
        /// The address.
        address: String,
    },
    /// Nothing says who asks an object store.
    #[error(
        "there are no credentials for {address}: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or \
         AWS_SKIP_SIGNATURE=true for a bucket that anybody may read"
    )]
    NoCredentials {
        /// The address.
        address: String,
    },
    /// An object store has no such bucket.
    #[error("there is no bucket for {address}, as {endpoint} says")]
    NoBucket {
        /// The address.
        address: String,
        /// Who says so.
        endpoint: String,
    },
    /// An object store does not let this one read.
    #[error("{endpoint} does not allow that {address} is read: {reason}")]
    NotAllowed {
        /// The address.
        address: String,
        /// Who says so.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// An object store cannot be asked, or its answer is no answer.
    #[error("cannot read {address} from {endpoint}: {reason}")]
    Store {
        /// The address.
        address: String,
        /// Whom it was asked of.
        endpoint: String,
        /// Why.
        reason: String,
    },
    /// An address that cannot be understood.
    #[error("{address} is no address of tables: {reason}")]
    Address {
        /// The address.
        address: String,
        /// Why.
        reason: String,
    },
    /// A file or folder cannot be read.
    #[error("cannot read {path}")]
    Read {
        /// Which one.
        path: String,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The answer cannot be written.
    #[error("cannot write {path}", path = .path.display())]
    Write {
        /// Where to.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The name of the output does not tell what is to be written.
    #[error("{path}: the name must end in .csv, .json, .parquet or .txt, or --format say it", path = .path.display())]
    Output {
        /// Which file.
        path: PathBuf,
    },
    /// Parquet is for files.
    #[error("Parquet is written into a file: --output FILE")]
    NoFile,
    /// A cluster is asked, and the program was built without what asks one.
    #[error(
        "this mlprof-sql was built without clusters: `cargo install mlprof-sql --features cluster` builds one with them"
    )]
    NoClusters,
    /// An address of no scheduler.
    #[error("{address} is no scheduler of a cluster: its address is df://HOST:PORT")]
    Scheduler {
        /// The address.
        address: String,
    },
    /// A cluster's scheduler does not answer.
    #[error("cannot reach the cluster at {address}: {reason}")]
    Cluster {
        /// Where its scheduler should be.
        address: String,
        /// Why.
        reason: String,
    },
    /// Threads cannot be started.
    #[error("cannot start: {0}")]
    Start(io::Error),
    /// The query is wrong, or cannot be run.
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
