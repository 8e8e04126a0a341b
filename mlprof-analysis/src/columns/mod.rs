//! Traces as Parquet: a folder of flat tables that DuckDB, DataFusion, Spark, polars and pandas read as they
//! are. Feature `parquet`.
//!
//! `FOLDER/<table>/<rank>-<cycle>.parquet`; names are those of Perfetto's tables. [`text_of_schema`] says what is in
//! them.

mod file;
mod info;
mod occupied;
mod paths;
mod read;
mod read_rollups;
mod schema;
mod slices;
mod stacks;
mod waits;
mod write;

use std::io;
use std::path::PathBuf;

pub use self::paths::{
    TraceFiles, find, find_rollups, is_folder_of_rollups, is_folder_of_tables, remove,
};
pub use self::read::read;
pub use self::read_rollups::read_rollups;
pub use self::schema::{
    Column, Kind, MODULES, SCHEMA_VERSION, SLICES, TABLES, Table, text_of_schema,
};
pub use self::write::write;

/// Why a trace cannot be read from tables.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// A file is not there, or cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// It is no Parquet, or not all of it.
    #[error("{path} is not Parquet, or not all of it: {reason}", path = .path.display())]
    Broken {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A later version changed what columns mean.
    #[error(
        "{path} was written by a newer mlprof: its schema has the version {found}, and this mlprof knows \
         those up to {SCHEMA_VERSION}",
        path = .path.display()
    )]
    Newer {
        /// Which file.
        path: PathBuf,
        /// The file's version.
        found: u32,
    },
    /// Somebody else's tables.
    #[error("{path} is no table of mlprof: it does not say which version of the schema it has",
        path = .path.display())]
    NotOurs {
        /// Which file.
        path: PathBuf,
    },
    /// Tables without a slice.
    #[error("nothing was recorded in {path}", path = .path.display())]
    Empty {
        /// Which file.
        path: PathBuf,
    },
}

mlprof_events::debug_as_display!(ColumnsError);
