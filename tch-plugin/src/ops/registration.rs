//! Registers libtorch as a source of ops before `main`, so that programs need no call.

/// Registers the source only. libtorch is not called until a profiler requests events.
extern "C" fn register() {
    super::install();
}

// SAFETY: the function only allocates and takes a lock, which `before_main!` allows. It does not
// call libtorch. Libraries such as libtorch are initialised before the programs that use them.
mlprof_core::before_main!(unsafe register);
