//! Records of compiled crates: their hooks and the outcome.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use serde::{Deserialize, Serialize};

use mlprof_instrument::{LeftOut, SplicedFunction, Unread};

/// Maximum size in bytes of a record to read.
const LONGEST: u64 = 256 << 20;

/// Crate that was compiled under `mlprof run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CrateRecord {
    /// Crate name, with underscores.
    pub crate_name: String,
    /// Package name.
    pub package: String,
    /// [Fingerprint](super::plan::Plan::fingerprint) of the hooks in the crate.
    pub fingerprint: u64,
    /// Functions with hooks.
    pub spliced: Vec<SplicedFunction>,
    /// Selected functions without hooks.
    pub left_out: Vec<LeftOut>,
    /// Functions that may behave differently because of their hooks.
    #[serde(default)]
    pub cautions: Vec<LeftOut>,
    /// Macros and included files that define functions outside the crate's source files.
    #[serde(default)]
    pub unseen: Vec<LeftOut>,
    /// Files that were not instrumented.
    pub unread: Vec<Unread>,
    /// Paths of all functions in the crate.
    pub seen: Vec<String>,
    /// Files that were searched for functions. They are known only while the crate is compiled.
    #[serde(skip)]
    pub read: Vec<PathBuf>,
    /// Reason why the crate was built without hooks although some of its functions were selected.
    pub unspliced: Option<String>,
    /// Reason why no crate for the same platform can have hooks.
    #[serde(default)]
    pub obstacle: Option<String>,
    /// Path of the final artifact below the build folder, if the crate is a program that users
    /// start.
    #[serde(default)]
    pub program: Option<PathBuf>,
}

impl CrateRecord {
    /// Reads all records in a folder. Unreadable records are skipped, so their crates are
    /// recompiled if necessary.
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

    /// Writes the record of a crate. Its file name is derived from `unit`.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, folder: &Path, unit: &str) -> io::Result<()> {
        let path = folder.join(format!("{unit}.json"));
        files::replace(&path, &serde_json::to_vec(self)?)
    }
}
