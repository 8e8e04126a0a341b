//! Ranges beside what another profiler measures.

use std::sync::Arc;

use super::NvtxProfiler;
use crate::Profiler;
use crate::multi::MultiProfiler;

/// Ranges for tools such as Nsight Systems, beside what a profiler measures: for owned profilers, and
/// for shared ones such as what [`into_profiler`](crate::IntoProfiler::into_profiler) returns.
pub trait EmitNvtxExt: sealed::Sealed {
    /// This profiler, and ranges besides: see the [module](super). The result is two profilers,
    /// which have no settings of their own: call it after all settings.
    ///
    /// ```
    /// use mlprof_core::prelude::*;
    ///
    /// let profiler = SimpleProfiler::new().emit_nvtx(); // goes into .profiler(…) of a trainer
    /// drop(profiler.profile("load_data"));
    /// assert!(profiler.summary().contains("load_data"));
    ///
    /// let named = "simple".into_profiler()?.emit_nvtx();
    /// # drop(named.profile("load_data"));
    /// # assert!(named.summary().contains("load_data"));
    /// # Ok::<(), mlprof_core::Error>(())
    /// ```
    ///
    /// *Cost*: that of this profiler, of [`NvtxProfiler`], and some 20 ns.
    fn emit_nvtx(self) -> Arc<dyn Profiler>;
}

/// Keeps other crates from implementing the extension trait.
mod sealed {
    use super::{Arc, Profiler};

    pub trait Sealed {}
    impl<P: Profiler + 'static> Sealed for P {}
    impl<P: Profiler + ?Sized + 'static> Sealed for Arc<P> {}
}

impl<P: Profiler + 'static> EmitNvtxExt for P {
    fn emit_nvtx(self) -> Arc<dyn Profiler> {
        with_ranges(Arc::new(self))
    }
}

impl<P: Profiler + 'static> EmitNvtxExt for Arc<P> {
    fn emit_nvtx(self) -> Arc<dyn Profiler> {
        with_ranges(self)
    }
}

impl EmitNvtxExt for Arc<dyn Profiler> {
    fn emit_nvtx(self) -> Arc<dyn Profiler> {
        with_ranges(self)
    }
}

fn with_ranges(profiler: Arc<dyn Profiler>) -> Arc<dyn Profiler> {
    Arc::new(MultiProfiler::new([Arc::new(NvtxProfiler::new()), profiler]))
}
