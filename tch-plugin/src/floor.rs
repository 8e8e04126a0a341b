//! Empty libtorch callbacks, which serve as a baseline in measurements.

/// The data that libtorch passes to the empty callbacks.
#[derive(Debug, Clone, Copy, Default)]
pub struct Floor {
    /// Passes the inputs of ops.
    pub shapes: bool,
    /// Reports allocations and frees of the starting thread.
    pub memory: bool,
}

/// RAII guard of the registered callbacks. Drop it on the thread that started them.
#[derive(Debug)]
#[must_use = "libtorch calls it only until this is dropped"]
pub struct Called {
    callback: u64,
    memory: bool,
}

// SAFETY: the declarations match floor.cpp. The functions take plain values and no pointers, so
// they are safe to call.
unsafe extern "C" {
    safe fn mlprof_floor_start(inputs: bool, memory: bool) -> u64;
    safe fn mlprof_floor_stop(callback: u64, memory: bool);
}

impl Floor {
    /// Registers the callbacks. Returns `None` if libtorch refuses.
    pub fn start(self) -> Option<Called> {
        let Self { shapes, memory } = self;
        let callback = mlprof_floor_start(shapes, memory);
        (callback != 0).then_some(Called { callback, memory })
    }
}

impl Drop for Called {
    fn drop(&mut self) {
        mlprof_floor_stop(self.callback, self.memory);
    }
}
