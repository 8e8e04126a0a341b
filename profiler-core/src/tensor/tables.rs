//! Writes a cycle as Parquet tables, with the same result as `mlprof convert --to parquet` for its
//! trace.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use mlprof_analysis::{Trace, columns};

use super::Cycle;

/// Folders to which this profiler has written tables, with the run number and last cycle of each.
#[derive(Debug, Default)]
pub(super) struct Folders(HashMap<PathBuf, (u32, u64)>);

impl Folders {
    /// Returns the folder for a cycle, and `true` if the folder is new. Cycles of one stage share a
    /// folder. A stage that runs again gets a new folder.
    pub(super) fn of(&mut self, first: &Path, cycle: u64) -> (PathBuf, bool) {
        let known = self.0.get(first).copied();
        let (run, is_new) = match known {
            None => (1, true),
            Some((run, last)) if cycle > last => (run, false),
            Some((run, _)) => (run + 1, true),
        };
        self.0.insert(first.to_owned(), (run, cycle));
        if run == 1 {
            return (first.to_owned(), is_new);
        }
        let stem = first.file_stem().unwrap_or_default().to_string_lossy();
        (first.with_file_name(format!("{stem}-{run}.parquet")), is_new)
    }
}

/// Writes the tables of a cycle. In a folder that is new for this run, it first removes old tables
/// of this rank and of ranks that no longer exist.
pub(super) fn write(cycle: &Cycle, trace: &Trace, folder: &Path, is_new: bool) -> io::Result<()> {
    if is_new {
        let (own, all) = (cycle.run.rank, cycle.run.world_size.max(1));
        columns::remove(folder, |rank| rank == own || rank >= all)?;
    }
    columns::write(trace, folder).map(drop)
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn a_stage_that_runs_again_has_a_folder_of_its_own() {
        let mut folders = Folders::default();
        let (fit, test) = (Path::new("runs/fit-a.b.parquet"), Path::new("runs/test-a.b.parquet"));
        let second = PathBuf::from("runs/fit-a.b-2.parquet");
        for (first, cycle, folder, is_new) in [
            (fit, 0, fit, true),
            (fit, 1, fit, false),
            (test, 0, test, true),
            // Cycle 2 may have been lost.
            (fit, 3, fit, false),
            (fit, 0, second.as_path(), true),
            (fit, 1, second.as_path(), false),
            (test, 1, test, false),
        ] {
            assert_eq!(folders.of(first, cycle), (folder.to_owned(), is_new), "{first:?} {cycle}");
        }
    }
}
