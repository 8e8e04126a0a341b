//! NVTX ranges in addition to the measurements of another profiler.

use std::sync::Arc;

use super::NvtxProfiler;
use crate::Profiler;
use crate::multi::MultiProfiler;

/// Adds NVTX ranges for tools such as Nsight Systems to a profiler. It works for owned profilers
/// and for shared ones, such as the result of
/// [`into_profiler`](crate::IntoProfiler::into_profiler).
pub trait EmitNvtxExt: sealed::Sealed {
    /// Combines this profiler with NVTX ranges: see the [module](super). The result is a
    /// combination of two profilers without settings of its own, so call this method after all
    /// settings.
    ///
    /// ```
    /// use mlprof_core::prelude::*;
    ///
    /// let profiler = SimpleProfiler::new().emit_nvtx(); // pass it to .profiler(…) of a trainer
    /// drop(profiler.profile("load_data"));
    /// assert!(profiler.summary().contains("load_data"));
    ///
    /// let named = "simple".into_profiler()?.emit_nvtx();
    /// # drop(named.profile("load_data"));
    /// # assert!(named.summary().contains("load_data"));
    /// # Ok::<(), mlprof_core::Error>(())
    /// ```
    ///
    /// *Cost*: the costs of this profiler and of [`NvtxProfiler`], plus about 20 ns.
    fn emit_nvtx(self) -> Arc<dyn Profiler>;
}

/// Prevents other crates from implementing the extension trait.
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
