//! `Debug` for profilers prints the type name without any measurements.

use std::fmt;

use crate::allocation::AllocationProfiler;
use crate::nvtx::NvtxProfiler;
use crate::profiler::name_of;
use crate::{AdvancedProfiler, MultiProfiler, Profiler, ProfilerExt, SimpleProfiler};
use mlprof_events::names::short_name_of;

/// Prints the name of the profiler's type and its parts, if any. A model that keeps its profiler
/// can therefore derive `Debug`.
///
/// # Examples
///
/// ```
/// use mlprof_core::{Profiler, SimpleProfiler};
/// use std::sync::Arc;
///
/// #[derive(Debug)]
/// struct Model {
///     profiler: Arc<dyn Profiler>,
/// }
///
/// let model = Model { profiler: Arc::new(SimpleProfiler::new()) };
/// assert_eq!(format!("{model:?}"), "Model { profiler: SimpleProfiler }");
/// ```
impl fmt::Debug for dyn Profiler + '_ {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.parts() {
            [] => formatter.write_str(short_name_of(name_of(self))),
            parts => formatter.debug_list().entries(parts).finish(),
        }
    }
}

macro_rules! debug_as_dyn_profiler {
    ($($type:ty),+ $(,)?) => {$(
        impl fmt::Debug for $type {
            fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                let profiler: &dyn Profiler = self;
                fmt::Debug::fmt(profiler, formatter)
            }
        }
    )+};
}

debug_as_dyn_profiler!(
    SimpleProfiler,
    AdvancedProfiler,
    NvtxProfiler,
    AllocationProfiler,
    MultiProfiler,
);
#[cfg(feature = "numerics")]
debug_as_dyn_profiler!(crate::NumericsProfiler);
#[cfg(feature = "tensor")]
debug_as_dyn_profiler!(crate::TensorProfiler);

#[cfg(all(test, not(loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::PassThroughProfiler;
    use crate::nvtx::EmitNvtxExt;

    #[test]
    fn every_profiler_of_mlprof_prints_its_name() {
        fn named(profiler: impl Profiler + fmt::Debug, name: &str) {
            assert_eq!(format!("{profiler:?}"), name);
            let shared: Arc<dyn Profiler> = Arc::new(profiler);
            assert_eq!(format!("{shared:?}"), name);
        }
        named(SimpleProfiler::new(), "SimpleProfiler");
        named(AdvancedProfiler::new(), "AdvancedProfiler");
        #[cfg(feature = "tensor")]
        named(crate::TensorProfiler::new(), "TensorProfiler");
        #[cfg(feature = "numerics")]
        named(crate::NumericsProfiler::new(), "NumericsProfiler");
        named(NvtxProfiler::new(), "NvtxProfiler");
        named(AllocationProfiler::new(), "AllocationProfiler");
        named(PassThroughProfiler::new(), "PassThroughProfiler");
        let several = SimpleProfiler::new().emit_nvtx();
        assert_eq!(format!("{several:?}"), "[NvtxProfiler, SimpleProfiler]");
    }
}
