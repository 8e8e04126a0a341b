//! Settings that `mlprof run` passes to the compiler processes.

use std::io;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use serde::{Deserialize, Serialize};

use mlprof_instrument::Fingerprint;
use mlprof_instrument::Selection;

/// Environment variable with the path of the [`Plan`] file, for processes that cargo starts as its
/// compiler.
pub const PLAN_VARIABLE: &str = "MLPROF_PLAN";

/// Maximum size of a plan file in bytes.
const LONGEST: u64 = 256 << 20;

/// Describes how crates are compiled during one `mlprof run`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// Functions to instrument.
    pub selection: Selection,
    /// Set when programs get an allocator that reports its allocations.
    pub tracks_allocations: bool,
    /// Enables frame pointers, which stack walking then uses.
    pub frame_pointers: bool,
    /// Path of the runtime library that programs are linked with.
    pub runtime: PathBuf,
    /// Folder of build output. Crates that are built elsewhere have no hooks.
    pub target: PathBuf,
    /// Folder for overlays and crate records.
    pub folder: PathBuf,
    /// Compiler wrapper that the user had configured.
    pub chained_wrapper: Option<PathBuf>,
    /// rustdoc program that the user had configured.
    pub rustdoc: Option<PathBuf>,
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read or parsed.
    pub fn read(path: &Path) -> io::Result<Self> {
        Ok(serde_json::from_slice(&files::read(path, LONGEST)?)?)
    }

    /// Reads the plan of the current run, and returns it with the folder of the run.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be read, or if the environment names no plan.
    pub fn of_process() -> io::Result<(Self, PathBuf)> {
        let path = PathBuf::from(std::env::var_os(PLAN_VARIABLE).unwrap_or_default());
        let plan = Self::read(&path).map_err(|error| {
            io::Error::other(format!("cannot read the plan {}: {error}", path.display()))
        })?;
        let run = path.parent().map(Path::to_owned).unwrap_or_default();
        Ok((plan, run))
    }

    /// Writes a plan.
    ///
    /// # Errors
    ///
    /// Returns an error if the file cannot be written.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        files::replace(path, &serde_json::to_vec(self)?)
    }

    /// Returns the folder of [crate records](super::record::CrateRecord).
    pub fn records(&self) -> PathBuf {
        self.folder.join("crates")
    }

    /// Returns a number that changes when a crate must be recompiled because its hooks change.
    pub fn fingerprint(&self, crate_name: &str, is_program: bool) -> u64 {
        let mut fingerprint = if self.selection.concerns(crate_name) {
            self.selection.fingerprint(crate_name)
        } else {
            0
        };
        if is_program {
            // The path of the runtime contains a hash, so it differs between versions.
            let runtime = self.runtime.as_os_str().as_encoded_bytes();
            fingerprint = Fingerprint::continued(fingerprint ^ 1).with(runtime).number();
        }
        let settings =
            u64::from(self.tracks_allocations && is_program) | u64::from(self.frame_pointers) << 1;
        fingerprint.wrapping_add(settings.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }
}
