//! Ops without a line in the program: libtorch becomes known as their source before `main`.

/// Registers, and no more: libtorch is asked for nothing until a profiler wants something.
extern "C" fn register() {
    super::install();
}

// SAFETY: it allocates and takes a lock, for which neither the standard library nor an allocator needs
// `main`; libraries such as libtorch are initialised before the programs that use them.
mlprof_core::before_main!(unsafe register);
