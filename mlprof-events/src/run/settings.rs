//! What `mlprof run` asks of a process.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::{GroupBy, Schedule, files};

/// Bytes of a file of settings, at most.
const LONGEST: u64 = 64 << 20;

/// Names a file of [`RunSettings`].
pub const RUN_VARIABLE: &str = "MLPROF_RUN";

/// What is measured in a process, and where results go. A file of JSON; a field that is missing is
/// off.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct RunSettings {
    /// Results go here, in files named after the program and its process number. Made if need be.
    pub directory: PathBuf,
    /// Whether tables are printed when the process ends, besides being written.
    pub prints: bool,
    /// Each process leaves its [record](super::ProcessRecord) here; nobody does if it is missing.
    pub processes: Option<PathBuf>,
    /// Frameworks whose ops have hooks, as rule files call them.
    pub frameworks: Vec<String>,
    /// The Tensor profiler.
    pub tensor: Option<TensorSettings>,
    /// The numerics profiler, with outputs of ops. Not written where it is off, so that programs understand it that have a
    /// library from before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub numerics: Option<NumericsSettings>,
    /// The Advanced profiler.
    pub advanced: Option<AdvancedSettings>,
    /// Lines of functions.
    pub lines: Option<LinesSettings>,
    /// Allocations of actions and functions.
    pub allocations: bool,
    /// Samples of stacks.
    pub samples: Option<SamplesSettings>,
    /// Whether processes listen to `mlprof ps` and its like. Not written where it is off, so that programs understand it that
    /// have a library from before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub live: bool,
    /// Whether the hooks tell when a training step ends. As above.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub has_steps: bool,
    /// Variables of the environment as they were before `mlprof run` set them for the build; `None`
    /// for one that was not there. The process gets them back.
    #[cfg_attr(not(any(unix, windows)), serde(skip))]
    pub environment: BTreeMap<String, Option<OsString>>,
}

/// Of lines.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinesSettings {
    /// Whether hits and times are printed.
    pub time: bool,
    /// Whether memory is measured and printed.
    pub memory: bool,
    /// What times are printed in, in seconds; microseconds if nothing is said.
    pub unit_seconds: Option<f64>,
    /// Whether functions and lines that never ran are left out of the printed table.
    pub skip_zero: bool,
    /// How often the report is written while the program runs, in seconds.
    pub output_interval_seconds: Option<f64>,
}

/// Of samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SamplesSettings {
    /// Samples per second of each thread.
    pub hz: u32,
    /// Whether everything was compiled with frame pointers.
    pub frame_pointers: bool,
}

/// Of the Tensor profiler.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct TensorSettings {
    /// Which steps are recorded. Without one the default schedule, or everything if the program never
    /// ends a step.
    pub schedule: Option<Schedule>,
    /// Whether allocations are recorded.
    pub memory: bool,
    /// Whether flame graphs are written.
    pub flame: bool,
    /// Rows of the printed table.
    pub row_limit: Option<usize>,
    /// What the rows of the table are told apart by.
    pub group_by: GroupBy,
    /// Whether traces say what ops compute. Not written where it is off, so that programs understand it that
    /// have a library from before.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub with_flops: bool,
    /// Whether traces say what was open around ops. As above.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub with_stack: bool,
}

/// Of the Advanced profiler.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AdvancedSettings {
    /// Lines of the printed tables.
    pub line_count: Option<usize>,
    /// Whether `.prof` files are written.
    pub dump_stats: bool,
}

/// Of the numerics profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NumericsSettings {
    /// Of every so many steps one is recorded.
    pub every: u64,
}

impl Default for NumericsSettings {
    fn default() -> Self {
        Self { every: 10 }
    }
}

/// Why a process runs without being measured.
#[derive(thiserror::Error)]
pub enum SettingsError {
    /// The file cannot be read.
    #[error("cannot read the settings of `mlprof run` in {path}")]
    Read {
        /// The file.
        path: PathBuf,
        /// Why.
        #[source]
        error: io::Error,
    },
    /// The file was written by another version, or by hand.
    #[error("cannot understand the settings of `mlprof run` in {path}")]
    Parse {
        /// The file.
        path: PathBuf,
        /// What and where.
        #[source]
        error: serde_json::Error,
    },
}

crate::debug_as_display!(SettingsError);

impl RunSettings {
    /// Whether the program's allocator has to tell of what it does.
    pub fn measures_memory(&self) -> bool {
        self.allocations
            || self.lines.as_ref().is_some_and(|lines| lines.memory)
            || self.tensor.as_ref().is_some_and(|tensor| tensor.memory)
    }

    /// Reads settings.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn read(path: &Path) -> Result<Self, SettingsError> {
        let text = files::read_text(path, LONGEST)
            .map_err(|error| SettingsError::Read { path: path.to_owned(), error })?;
        serde_json::from_str(&text)
            .map_err(|error| SettingsError::Parse { path: path.to_owned(), error })
    }

    /// Writes settings.
    ///
    /// # Errors
    ///
    /// That of the file.
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
        // Programs with a library from before do not know these.
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
