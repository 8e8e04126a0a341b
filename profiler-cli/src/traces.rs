//! Which traces a command is to read, and reading them.

use std::path::{Path, PathBuf};

use profiler_analysis::Trace;
use profiler_analysis::rollups::Rollups;

use crate::report::{self, unpack};
use crate::tables::{self, TraceFiles};

/// Why traces cannot be found.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A folder without traces.
    #[error("there is no trace in {path}: no file whose name ends in .json or .json.gz",
        path = .path.display())]
    NoTraces {
        /// Which folder.
        path: PathBuf,
    },
    /// A folder cannot be read.
    #[error(transparent)]
    Read(#[from] report::Error),
}

/// Where a trace is.
pub(crate) enum Source {
    /// In a file.
    Json(PathBuf),
    /// In tables.
    Tables(TraceFiles),
}

impl Source {
    /// What is said to name it.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::Json(path) => path.clone(),
            Self::Tables(files) => tables::path(files),
        }
    }
}

/// The files that are named, and those in the folders that are, by their names.
pub(crate) fn of(named: &[PathBuf]) -> Result<Vec<Source>, Error> {
    let mut sources = Vec::new();
    for path in named {
        match tables::is_folder_of_tables(path) {
            true => sources.extend(tables::find(path)?.into_iter().map(Source::Tables)),
            false => sources.extend(files(path)?),
        }
    }
    Ok(sources)
}

/// The traces in a file or a folder of which the sums are wanted: slices may be missing.
pub(crate) fn of_rollups(path: &Path) -> Result<Vec<Source>, Error> {
    match tables::is_folder_of_rollups(path) {
        true => Ok(tables::find_rollups(path)?.into_iter().map(Source::Tables).collect()),
        false => files(path),
    }
}

fn files(path: &Path) -> Result<Vec<Source>, Error> {
    match path.is_dir() {
        true => Ok(inside(path)?.into_iter().map(Source::Json).collect()),
        false => Ok(vec![Source::Json(path.to_owned())]),
    }
}

fn inside(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    let unreadable = |error| report::Error::Read { path: folder.to_owned(), error };
    let mut files = Vec::new();
    for entry in folder.read_dir().map_err(unreadable)? {
        let path = entry.map_err(unreadable)?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        if name.is_some_and(|name| name.ends_with(".json") || name.ends_with(".json.gz")) {
            files.push(path);
        }
    }
    // Reports lie beside traces: where there are traces by their names, it is those.
    let is_trace = |path: &PathBuf| path.to_string_lossy().contains(".trace.json");
    if files.iter().any(is_trace) {
        files.retain(is_trace);
    }
    files.sort();
    if files.is_empty() {
        return Err(Error::NoTraces { path: folder.to_owned() });
    }
    Ok(files)
}

/// The trace itself.
pub(crate) fn read(source: &Source) -> Result<Trace, report::Error> {
    match source {
        Source::Tables(files) => tables::read(files),
        Source::Json(path) => unpack::trace(path),
    }
}

/// The sums of a trace.
pub(crate) fn read_rollups(source: &Source) -> Result<Rollups, report::Error> {
    match source {
        Source::Tables(files) => tables::read_rollups(files),
        Source::Json(path) => unpack::trace(path).map(|trace| Rollups::of(&trace)),
    }
}
