//! Compiler settings of the profiled program.

use crate::value::report_value;
use serde::Serialize;

report_value! {
/// Compiler settings of the profiled program. The profiler crate records its own settings, which
/// are the ones that the Cargo profile applies to dependencies.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[cfg_attr(feature = "read", derive(serde::Deserialize))]
pub struct BuildSettings from BuildSettingsParts {
    /// `true` if debug assertions are enabled (`debug-assertions`).
    pub debug_assertions: bool,
    /// Optimization level: `0` to `3`, `s` or `z`.
    pub opt_level: String,
    /// Processor features that the compiler may use beyond the baseline of the architecture
    /// (`target-cpu`, `target-feature`). Only features that affect numeric code are listed.
    pub target_features: Vec<String>,
    /// Features of the host processor, from the same list, plus
    /// [`AVX2_IN_HALVES`](Self::AVX2_IN_HALVES) if it applies. Empty if unknown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub processor_features: Vec<String>,
}
}

impl BuildSettings {
    /// Entry of `processor_features` for a processor that executes each AVX2 instruction as two
    /// half-width operations.
    #[doc(hidden)]
    pub const AVX2_IN_HALVES: &'static str = "avx2-in-halves";
}
