//! Callbacks of libtorch that do nothing, for measurements that compare with them.

/// What libtorch shall hand over to nobody.
#[derive(Debug, Clone, Copy, Default)]
pub struct Floor {
    /// Ops come with their inputs.
    pub shapes: bool,
    /// Allocations and frees of the thread that starts it.
    pub memory: bool,
}

/// The callbacks at work, until this is dropped on the thread that started them.
#[derive(Debug)]
#[must_use = "libtorch calls only until this is dropped"]
pub struct Called {
    callback: u64,
    memory: bool,
}

// SAFETY: the declarations of floor.cpp.
unsafe extern "C" {
    safe fn mlprof_floor_start(inputs: bool, memory: bool) -> u64;
    safe fn mlprof_floor_stop(callback: u64, memory: bool);
}

impl Floor {
    /// Has libtorch call; `None` if it refuses.
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
