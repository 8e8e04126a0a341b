//! Traces as Parquet tables, if the command is built with the feature `parquet`.

use std::path::{Path, PathBuf};

use mlprof_analysis::Trace;
use mlprof_analysis::rollups::Rollups;
use mlprof_events::files::{StandardStream, print};

use crate::report::Error;

#[cfg(feature = "parquet")]
mod built {

    use mlprof_analysis::columns;

    use super::{Error, Path, PathBuf, Rollups, Trace};

    pub(crate) use columns::TraceFiles;

    /// Returns the traces in a folder.
    pub(crate) fn find(folder: &Path) -> Result<Vec<TraceFiles>, Error> {
        Ok(columns::find(folder)?)
    }

    /// Returns the traces in a folder that have rollup tables.
    pub(crate) fn find_rollups(folder: &Path) -> Result<Vec<TraceFiles>, Error> {
        Ok(columns::find_rollups(folder)?)
    }

    /// Reads the rollups of a trace.
    pub(crate) fn read_rollups(files: &TraceFiles) -> Result<Rollups, Error> {
        Ok(columns::read_rollups(files)?)
    }

    /// Reads a trace.
    pub(crate) fn read(files: &TraceFiles) -> Result<Trace, Error> {
        Ok(columns::read(files)?)
    }

    /// Returns the path of the trace's table of slices.
    pub(crate) fn path(files: &TraceFiles) -> PathBuf {
        files.of(&columns::TABLES[0])
    }

    /// Writes the tables of a trace.
    pub(crate) fn write(trace: &Trace, folder: &Path) -> Result<(), Error> {
        columns::write(trace, folder)
            .map_err(|error| Error::Write { path: folder.to_owned(), error })?;
        mlprof_report::output::say(format_args!("written: {}", folder.display()));
        Ok(())
    }

    /// Returns a description of the tables.
    pub(crate) fn schema() -> Result<String, Error> {
        Ok(columns::text_of_schema())
    }
}

#[cfg(not(feature = "parquet"))]
mod built {
    use super::{Error, Path, PathBuf, Rollups, Trace};

    /// Uninhabited: without the feature `parquet` there are no tables.
    #[derive(Debug, Clone)]
    pub(crate) enum TraceFiles {}

    pub(crate) fn find(_: &Path) -> Result<Vec<TraceFiles>, Error> {
        Err(Error::WithoutParquet)
    }

    pub(crate) fn find_rollups(_: &Path) -> Result<Vec<TraceFiles>, Error> {
        Err(Error::WithoutParquet)
    }

    pub(crate) fn read_rollups(files: &TraceFiles) -> Result<Rollups, Error> {
        match *files {}
    }

    pub(crate) fn read(files: &TraceFiles) -> Result<Trace, Error> {
        match *files {}
    }

    pub(crate) fn path(files: &TraceFiles) -> PathBuf {
        match *files {}
    }

    pub(crate) fn write(_: &Trace, _: &Path) -> Result<(), Error> {
        Err(Error::WithoutParquet)
    }

    pub(crate) fn schema() -> Result<String, Error> {
        Err(Error::WithoutParquet)
    }
}

pub(crate) use built::*;

/// Returns `true` if the folder contains traces as tables.
pub(crate) fn is_folder_of_tables(folder: &Path) -> bool {
    folder.join("slices").is_dir()
}

/// Returns `true` if the folder contains rollups of traces as tables.
pub(crate) fn is_folder_of_rollups(folder: &Path) -> bool {
    folder.join("ops").is_dir()
}

/// Print the columns of the Parquet tables that mlprof convert writes
///
/// The output lists each column with its type and meaning. It also states the version of the
/// schema, which each file contains as `mlprof.schema`.
#[derive(Debug, Clone, clap::Args)]
#[command(verbatim_doc_comment)]
pub struct SchemaArguments {}

/// Prints the schema of the tables.
///
/// # Errors
///
/// Returns an error if the command was built without Parquet support, or if the schema cannot be
/// printed.
pub fn print_schema(_: &SchemaArguments) -> Result<(), Error> {
    crate::report::ignore_closed_pipe(print(StandardStream::Output, schema()?.as_bytes()))
}
