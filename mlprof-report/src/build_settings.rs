//! How a program was built.

use crate::value::report_value;
use serde::Serialize;

report_value! {
/// With which settings of the compiler a program was built, as the profiler in it knows them: those
/// that Cargo's profile gives to dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct BuildSettings from BuildSettingsParts {
    /// Whether assertions for debugging are checked (`debug-assertions`).
    pub debug_assertions: bool,
    /// The level of optimisation: `0` to `3`, `s` or `z`.
    pub opt_level: String,
    /// What the compiler may take for granted of the processor beyond what each of its kind can do
    /// (`target-cpu`, `target-feature`), of what matters to numeric code.
    pub target_features: Vec<String>,
    /// What of the same the processor can do that the program runs on, and
    /// [what it does in halves](Self::AVX2_IN_HALVES); empty where that is not known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processor_features: Vec<String>,
}
}

impl BuildSettings {
    /// Among the features of a processor: it has AVX2, and takes as long for it as for two of half the width.
    #[doc(hidden)]
    pub const AVX2_IN_HALVES: &'static str = "avx2-in-halves";
}
