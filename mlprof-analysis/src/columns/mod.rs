//! Traces as Parquet tables: a folder of flat tables that DuckDB, DataFusion, Spark, polars and
//! pandas can read directly. Requires the feature `parquet`.
//!
//! Files are named `FOLDER/<table>/<rank>-<cycle>.parquet`, and tables and columns are named as in
//! Perfetto. [`text_of_schema`] describes their contents.

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

/// Error of reading a trace from tables.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum ColumnsError {
    /// A file does not exist or cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Io {
        /// Path of the file.
        path: PathBuf,
        /// Cause of the error.
        #[source]
        error: io::Error,
    },
    /// The file is not a Parquet file, or it is incomplete.
    #[error("cannot read {path}: it is not Parquet, or is incomplete: {reason}", path = .path.display())]
    Broken {
        /// Path of the file.
        path: PathBuf,
        /// Description of the defect.
        reason: String,
    },
    /// The file was written by a later version, which changed the meaning of columns.
    #[error(
        "cannot read {path}: a newer mlprof wrote it with schema version {found}, and this mlprof supports \
         versions up to {SCHEMA_VERSION}; update mlprof",
        path = .path.display()
    )]
    Newer {
        /// Path of the file.
        path: PathBuf,
        /// Schema version of the file.
        found: u32,
    },
    /// The table was written by another program.
    #[error("cannot read {path}: it is not an mlprof table, because it has no schema version",
        path = .path.display())]
    NotOurs {
        /// Path of the file.
        path: PathBuf,
    },
    /// The tables contain no slice.
    #[error("cannot use {path}: it contains no slices", path = .path.display())]
    Empty {
        /// Path of the file.
        path: PathBuf,
    },
}

mlprof_events::debug_as_display!(ColumnsError);
