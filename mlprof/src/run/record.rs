//! What is remembered of every crate that was compiled: with which hooks, and what came of it.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use serde::{Deserialize, Serialize};

use mlprof_instrument::{LeftOut, SplicedFunction, Unread};

/// Bytes of a record that are read, at most.
const LONGEST: u64 = 256 << 20;

/// A crate that was compiled under `mlprof run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateRecord {
    /// Its name, with underscores.
    pub crate_name: String,
    /// The name of its package.
    pub package: String,
    /// The [fingerprint](super::plan::Plan::fingerprint) of what was put into it.
    pub fingerprint: u64,
    /// The functions that have hooks.
    pub spliced: Vec<SplicedFunction>,
    /// The functions that were selected and have none.
    pub left_out: Vec<LeftOut>,
    /// Functions that may behave otherwise because of their hooks.
    #[serde(default)]
    pub cautions: Vec<LeftOut>,
    /// What makes functions that are in no file of the crate.
    #[serde(default)]
    pub unseen: Vec<LeftOut>,
    /// Files that were left as they are.
    pub unread: Vec<Unread>,
    /// All functions.
    pub seen: Vec<String>,
    /// Files that were searched for functions; known only while the crate is compiled.
    #[serde(skip)]
    pub read: Vec<PathBuf>,
    /// Why the crate was built without hooks although some of it was selected.
    pub unspliced: Option<String>,
    /// Why nothing that is built for the same platform can have hooks.
    #[serde(default)]
    pub obstacle: Option<String>,
    /// The final artifact, if the crate is a program that users start: its name, and its folder
    /// below that of build output.
    #[serde(default)]
    pub program: Option<PathBuf>,
}

impl CrateRecord {
    /// Reads all records of a folder. Those that cannot be read are left out: their crates are
    /// compiled anew when it matters.
    pub fn read_all(folder: &Path) -> Vec<(PathBuf, Self)> {
        let Ok(entries) = std::fs::read_dir(folder) else { return Vec::new() };
        let paths = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let read = |path: PathBuf| {
            let text = files::read(&path, LONGEST).ok()?;
            Some((path, serde_json::from_slice(&text).ok()?))
        };
        let mut records: Vec<_> = paths.filter_map(read).collect();
        records.sort_by(|one: &(PathBuf, Self), other| one.0.cmp(&other.0));
        records
    }

    /// Writes the record of a crate under the name of its `unit`.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn write(&self, folder: &Path, unit: &str) -> io::Result<()> {
        let path = folder.join(format!("{unit}.json"));
        files::replace(&path, &serde_json::to_vec(self)?)
    }
}
