//! Where tables lie.

use std::io;
use std::path::{Path, PathBuf};

use super::ColumnsError;
use super::schema::{OPS, SLICES, Table};

/// The tables of one trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceFiles {
    folder: PathBuf,
    name: String,
}

impl TraceFiles {
    /// Those of a rank's cycle.
    pub(super) fn new(folder: &Path, rank: u32, cycle: u64) -> Self {
        Self { folder: folder.to_owned(), name: format!("{rank}-{cycle}.parquet") }
    }

    /// The file of a table.
    pub fn of(&self, table: &Table) -> PathBuf {
        self.folder.join(table.name).join(&self.name)
    }
}

/// Whether a folder has traces as tables.
pub fn is_folder_of_tables(folder: &Path) -> bool {
    folder.join(SLICES.name).is_dir()
}

/// Whether a folder has sums of traces as tables: those of [`Rollups`](crate::rollups::Rollups).
pub fn is_folder_of_rollups(folder: &Path) -> bool {
    folder.join(OPS.name).is_dir()
}

/// The traces of a folder, by rank and cycle.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn find(folder: &Path) -> Result<Vec<TraceFiles>, ColumnsError> {
    having(folder, &SLICES)
}

/// The traces of a folder of which there are sums, by rank and cycle.
///
/// # Errors
///
/// If the folder cannot be read.
pub fn find_rollups(folder: &Path) -> Result<Vec<TraceFiles>, ColumnsError> {
    having(folder, &OPS)
}

fn having(folder: &Path, table: &Table) -> Result<Vec<TraceFiles>, ColumnsError> {
    let files = folder.join(table.name);
    let names = || -> io::Result<Vec<String>> {
        let entries = files.read_dir()?;
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let names = names().map_err(|error| ColumnsError::Io { path: files.clone(), error })?;
    let number = |name: &String| {
        let (rank, cycle) = name.strip_suffix(".parquet")?.split_once('-')?;
        Some((rank.parse::<u32>().ok()?, cycle.parse::<u64>().ok()?))
    };
    let mut numbers: Vec<(u32, u64)> = names.iter().filter_map(number).collect();
    numbers.sort_unstable();
    Ok(numbers.into_iter().map(|(rank, cycle)| TraceFiles::new(folder, rank, cycle)).collect())
}
