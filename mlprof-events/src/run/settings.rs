//! Settings that `mlprof run` passes to a process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{GroupBy, Schedule, files};

/// Maximum size of a settings file in bytes.
const LONGEST: u64 = 64 << 20;

/// Environment variable with the path of a [`RunSettings`] file.
pub const RUN_VARIABLE: &str = "MLPROF_RUN";

/// Measurements to make in a process, and the output directory, stored in a JSON file. A missing
/// field is off.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Output directory. Files are named after the program and its process id. The directory is
    /// created if it does not exist.
    pub directory: PathBuf,
    /// Enables printing tables when the process ends, in addition to writing files.
    pub prints: bool,
    /// Folder in which each process leaves its [record](super::ProcessRecord). If it is `None`,
    /// processes leave no records.
    pub processes: Option<PathBuf>,
    /// Frameworks whose op hooks are enabled, by their names in rule files.
    pub frameworks: Vec<String>,
    /// Settings of the Tensor profiler.
    pub tensor: Option<TensorSettings>,
    /// Settings of the numerics profiler, which includes the outputs of ops. The field is omitted
    /// if it is off, so that programs with an older version of the library can read the file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numerics: Option<NumericsSettings>,
    /// Settings of the Advanced profiler.
    pub advanced: Option<AdvancedSettings>,
    /// Settings of the line profiler.
    pub lines: Option<LinesSettings>,
    /// Enables allocation counts of actions and functions.
    pub allocations: bool,
    /// Settings of the stack sampler.
    pub samples: Option<SamplesSettings>,
    /// Enables the live socket for `mlprof ps` and similar commands. The field is omitted if it is
    /// off, so that programs with an older version of the library can read the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// Set if the hooks report the end of each training step. The field is omitted if it is off, so
    /// that programs with an older version of the library can read the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_steps: bool,
    /// Environment variables as they were before `mlprof run` set them for the build; `None` for an
    /// unset variable. The process restores them.
    #[cfg_attr(not(any(unix, windows)), serde(skip))]
    pub environment: BTreeMap<String, Option<OsString>>,
}

/// Settings of the line profiler.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinesSettings {
    /// Enables printing of hits and times.
    pub time: bool,
    /// Enables measuring and printing of memory.
    pub memory: bool,
    /// Unit of printed times, in seconds. `None` selects microseconds.
    pub unit_seconds: Option<f64>,
    /// Hides functions and lines that never ran in the printed table.
    pub skip_zero: bool,
    /// Interval in seconds at which the report is written while the program runs.
    pub output_interval_seconds: Option<f64>,
}

/// Settings of the stack sampler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplesSettings {
    /// Sampling rate in samples per second and thread.
    pub hz: u32,
    /// Set if all code was compiled with frame pointers.
    pub frame_pointers: bool,
}

/// Settings of the Tensor profiler.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TensorSettings {
    /// Schedule of the recorded steps. `None` selects the default schedule, or records everything
    /// if the program never ends a step.
    pub schedule: Option<Schedule>,
    /// Enables recording of allocations.
    pub memory: bool,
    /// Enables writing of flame graphs.
    pub flame: bool,
    /// Maximum number of rows in the printed table.
    pub row_limit: Option<usize>,
    /// Criteria that group the rows of the table.
    pub group_by: GroupBy,
    /// Enables FLOP counts of ops in traces. The field is omitted if it is off, so that programs
    /// with an older version of the library can read the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub with_flops: bool,
    /// Enables the enclosing actions of ops in traces. The field is omitted if it is off, so that
    /// programs with an older version of the library can read the file.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub with_stack: bool,
}

/// Settings of the Advanced profiler.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdvancedSettings {
    /// Maximum number of lines in the printed tables.
    pub line_count: Option<usize>,
    /// Enables writing of `.prof` files.
    pub dump_stats: bool,
}

/// Settings of the numerics profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NumericsSettings {
    /// Recording interval in steps: one of every `every` steps is recorded.
    pub every: u64,
}

impl Default for NumericsSettings {
    fn default() -> Self {
        Self { every: 10 }
    }
}

/// Reason why a process runs without measurements.
#[derive(thiserror::Error)]
pub enum SettingsError {
    /// The settings file cannot be read.
    #[error("cannot read the settings of `mlprof run` in {path}")]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Error of the file system.
        #[source]
        error: io::Error,
    },
    /// The settings file was written by another version or by hand.
    #[error("cannot parse the settings of `mlprof run` in {path}")]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Error with its position in the file.
        #[source]
        error: serde_json::Error,
    },
}

crate::debug_as_display!(SettingsError);

impl RunSettings {
    /// Returns `true` if the program's allocator must report its allocations.
    pub fn measures_memory(&self) -> bool {
        self.allocations
            || self.lines.as_ref().is_some_and(|lines| lines.memory)
            || self.tensor.as_ref().is_some_and(|tensor| tensor.memory)
    }

    /// Reads settings from a file.
    ///
    /// # Errors
    ///
    /// Returns a [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = files::read_text(path, LONGEST)
            .map_err(|error| SettingsError::Read { path: path.to_owned(), error })?;
        serde_json::from_str(&text)
            .map_err(|error| SettingsError::Parse { path: path.to_owned(), error })
    }

    /// Writes the settings to a file.
    ///
    /// # Errors
    ///
    /// Returns the error of the file.
    pub fn write(&self, path: &Path) -> io::Result<()> {
        files::replace(path, &serde_json::to_vec_pretty(self)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_read_as_they_were_written_and_errors_name_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("run.json");
        let settings = RunSettings {
            directory: "results".into(),
            tensor: Some(TensorSettings {
                schedule: Some(Schedule::new().active(1)),
                ..Default::default()
            }),
            environment: BTreeMap::from([
                ("CARGO_TARGET_DIR".to_owned(), Some("/tmp/a b".into())),
                ("RUSTC_WRAPPER".to_owned(), None),
            ]),
            ..Default::default()
        };
        settings.write(&path).expect("written");
        assert_eq!(RunSettings::read(&path).expect("read"), settings);
        // Programs with an older version of the library do not know these fields.
        let text = std::fs::read_to_string(&path).expect("written");
        for newer in ["with_flops", "with_stack", "live", "has_steps", "numerics"] {
            assert!(!text.contains(newer), "{newer}: {text}");
        }
        let tensor = TensorSettings { with_flops: true, with_stack: true, ..Default::default() };
        let settings =
            RunSettings { tensor: Some(tensor), live: true, has_steps: true, ..Default::default() };
        settings.write(&path).expect("written");
        assert_eq!(RunSettings::read(&path).expect("read"), settings);
        std::fs::write(&path, r#"{"tensor": {"shcedule": 1}}"#).expect("written");
        let error = format!("{:?}", RunSettings::read(&path).expect_err("a typo"));
        assert!(error.contains("run.json") && error.contains("shcedule"), "{error}");
        let missing = RunSettings::read(&folder.path().join("no.json")).expect_err("missing");
        assert!(missing.to_string().contains("no.json"), "{missing}");
    }
}
