//! What `mlprof run` and the processes that it starts tell each other, by files: what is asked of a process,
//! and what a process leaves behind.

#[doc(hidden)]
pub mod process_record;
mod settings;

pub use process_record::{ProcessRecord, ProgramRecord};
pub use settings::{
    AdvancedSettings, LinesSettings, NumericsSettings, RUN_VARIABLE, RunSettings, SamplesSettings,
    SettingsError, TensorSettings,
};
