//! Files through which `mlprof run` and its processes communicate: the settings for a process, and
//! the record that a process leaves.

#[doc(hidden)]
pub mod process_record;
mod settings;

pub use process_record::{ProcessRecord, ProgramRecord};
pub use settings::{
    AdvancedSettings, LinesSettings, NumericsSettings, RUN_VARIABLE, RunSettings, SamplesSettings,
    SettingsError, TensorSettings,
};
