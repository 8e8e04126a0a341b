//! Result files of a run.

use mlprof_events::error_chain::Chain;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use mlprof_events::files::{TemporaryFolder, is_regular, is_temporary};

use super::say;
use crate::report;

/// Folder of results, with a snapshot of the files before the run.
pub struct Results {
    folder: PathBuf,
    before: BTreeMap<PathBuf, SystemTime>,
}

impl Results {
    /// Creates the folder if necessary, and takes the snapshot.
    ///
    /// # Errors
    ///
    /// Returns an error if the folder cannot be written. The check happens before the run, instead
    /// of after hours of training.
    pub fn begin(folder: &Path) -> io::Result<Self> {
        drop(TemporaryFolder::within(folder)?);
        Ok(Self { folder: folder.to_owned(), before: files(folder) })
    }

    /// Returns the files that were added or changed since the snapshot.
    pub fn new_files(&self) -> Vec<PathBuf> {
        files(&self.folder)
            .into_iter()
            .filter(|(path, changed)| self.before.get(path) != Some(changed))
            // Temporary files of a killed process are not results.
            .filter(|(path, _)| !is_in_the_making(path))
            .map(|(path, _)| path)
            .collect()
    }

    /// Writes one page with the reports among these files. If a page is written, it is added to the
    /// list.
    pub fn write_page(&self, new: &mut Vec<PathBuf>) {
        // A named pipe with such a name would block the read, so only regular files are read.
        let is_json = |path: &&PathBuf| {
            path.extension().is_some_and(|extension| extension == "json") && is_regular(path)
        };
        // Some JSON files are not reports, for example memory over time.
        let reports = new.iter().filter(is_json).filter_map(|path| report::reports_of(path).ok());
        let reports: Vec<_> = reports.flatten().collect();
        if reports.is_empty() {
            say("cannot write an HTML page: the command wrote no report");
            return;
        }
        let page = self.folder.join("report.html");
        match report::write_page(reports, &page) {
            Ok(()) => {
                new.retain(|path| *path != page);
                new.push(page);
            }
            Err(error) => say(&Chain(&error).to_string()),
        }
    }

    /// Prints the paths of the result files.
    pub fn tell(&self, new: &[PathBuf]) {
        if new.is_empty() {
            return;
        }
        say(&format!("{} in {}:", count(new.len()), self.folder.display()));
        for path in new {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            say(&format!("  {name}"));
        }
        if new.iter().any(|path| path.extension().is_some_and(|extension| extension == "json")) {
            say("to print tables in another order or with other limits: mlprof report FILE.json");
        }
    }
}

fn count(files: usize) -> String {
    match files {
        1 => "1 file".to_owned(),
        files => format!("{files} files"),
    }
}

fn is_in_the_making(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(is_temporary)
}

fn files(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let Ok(entries) = std::fs::read_dir(folder) else { return BTreeMap::new() };
    let changed = |entry: &std::fs::DirEntry| entry.metadata().ok()?.modified().ok();
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| Some((entry.path(), changed(&entry)?)))
        .collect()
}
