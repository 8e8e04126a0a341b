//! Paths of table files.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files::refuse_link_of_others;

use super::ColumnsError;
use super::schema::{OPS, SLICES, TABLES, Table};

/// Table files of one trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFiles {
    folder: PathBuf,
    name: String,
}

impl TraceFiles {
    /// Returns the table files of a rank and cycle.
    pub(super) fn new(folder: &Path, rank: u32, cycle: u64) -> Self {
        Self { folder: folder.to_owned(), name: format!("{rank}-{cycle}.parquet") }
    }

    /// Returns the file path of a table.
    pub fn of(&self, table: &Table) -> PathBuf {
        self.folder.join(table.name).join(&self.name)
    }
}

/// Returns `true` if a folder contains traces as tables.
pub fn is_folder_of_tables(folder: &Path) -> bool {
    folder.join(SLICES.name).is_dir()
}

/// Returns `true` if a folder contains tables with the sums of
/// [`Rollups`](crate::rollups::Rollups).
pub fn is_folder_of_rollups(folder: &Path) -> bool {
    folder.join(OPS.name).is_dir()
}

/// Finds the traces of a folder, ordered by rank and cycle.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn find(folder: &Path) -> Result<Vec<TraceFiles>, ColumnsError> {
    having(folder, &SLICES)
}

/// Finds the traces of a folder that have sums, ordered by rank and cycle.
///
/// # Errors
///
/// Returns an error if the folder cannot be read.
pub fn find_rollups(folder: &Path) -> Result<Vec<TraceFiles>, ColumnsError> {
    having(folder, &OPS)
}

/// Removes the tables of the selected ranks from a folder. Other files remain, and a missing folder
/// is not an error.
///
/// # Errors
///
/// Returns an error if an existing file cannot be removed.
pub fn remove(folder: &Path, is_of: impl Fn(u32) -> bool) -> io::Result<()> {
    let unless_gone = |result: io::Result<()>| match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    };
    for table in TABLES {
        let folder = folder.join(table.name);
        refuse_link_of_others(&folder)?;
        let entries = match folder.read_dir() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
            if numbers(&name).is_some_and(|(rank, _)| is_of(rank)) {
                unless_gone(std::fs::remove_file(&path))?;
            }
        }
    }
    Ok(())
}

/// Parses the rank and cycle from a file name.
fn numbers(name: &str) -> Option<(u32, u64)> {
    let (rank, cycle) = name.strip_suffix(".parquet")?.split_once('-')?;
    Some((rank.parse().ok()?, cycle.parse().ok()?))
}

fn having(folder: &Path, table: &Table) -> Result<Vec<TraceFiles>, ColumnsError> {
    let files = folder.join(table.name);
    let names = || -> io::Result<Vec<String>> {
        let entries = files.read_dir()?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let names = names().map_err(|error| ColumnsError::Io { path: files.clone(), error })?;
    let mut numbers: Vec<(u32, u64)> = names.iter().filter_map(|name| numbers(name)).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|(rank, cycle)| TraceFiles::new(folder, rank, cycle)).collect())
}
