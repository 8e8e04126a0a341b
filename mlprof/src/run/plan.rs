//! What the processes that compile must know.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use serde::{Deserialize, Serialize};

use mlprof_instrument::Fingerprint;
use mlprof_instrument::Selection;

/// Names the file of a [`Plan`], for processes that cargo starts as its compiler.
pub const PLAN_VARIABLE: &str = "MLPROF_PLAN";

/// Bytes of a plan, at most.
const LONGEST: u64 = 256 << 20;

/// How crates are compiled under one `mlprof run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// What is measured.
    pub selection: Selection,
    /// Whether programs get an allocator that tells of what it does.
    pub tracks_allocations: bool,
    /// Whether stacks are to be walked by frame pointers.
    pub frame_pointers: bool,
    /// The library that programs are linked with.
    pub runtime: PathBuf,
    /// The folder of build output. Crates that are built elsewhere have no hooks.
    pub target: PathBuf,
    /// For overlays and records.
    pub folder: PathBuf,
    /// The compiler's wrapper that was set before.
    pub chained_wrapper: Option<PathBuf>,
    /// The rustdoc that was set before.
    pub rustdoc: Option<PathBuf>,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    ///
    /// Those of the file and of its text.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&files::read(path, LONGEST)?)?)
    }

    /// Reads the plan of the run that this process belongs to, and returns it with the folder of
    /// the run.
    ///
    /// # Errors
    ///
    /// Those of the file, and where the environment names none.
    pub fn of_process() -> io::Result<(Self, PathBuf)> {
        let path = PathBuf::from(std::env::var_os(PLAN_VARIABLE).unwrap_or_default());
        let plan = Self::read(&path).map_err(|error| {
            io::Error::other(format!("its plan {} cannot be read: {error}", path.display()))
        })?;
        let run = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok((plan, run))
    }

    /// Writes a plan.
    ///
    /// # Errors
    ///
    /// Those of the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        files::replace(path, &serde_json::to_vec(self)?)
    }

    /// The folder of [records](super::record::CrateRecord).
    pub fn records(&self) -> PathBuf {
        self.folder.join("crates")
    }

    /// Changes when a crate has to be compiled anew because other hooks go into it.
    pub fn fingerprint(&self, crate_name: &str, is_program: bool) -> u64 {
        let mut fingerprint = if self.selection.concerns(crate_name) {
            self.selection.fingerprint(crate_name)
        } else {
            0
        };
        if is_program {
            // A runtime of another version has another path.
            let runtime = self.runtime.as_os_str().as_encoded_bytes();
            fingerprint = Fingerprint::continued(fingerprint ^ 1).with(runtime).number();
        }
        let settings =
            u64::from(self.tracks_allocations && is_program) | u64::from(self.frame_pointers) << 1;
        fingerprint.wrapping_add(settings.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
