//! Ops without a line in the program: libtorch becomes known as their source before `main`.

/// Registers, and no more: libtorch is asked for nothing until a profiler wants something.
extern "C" fn register() {
    super::install();
}

// SAFETY: both sections are lists of addresses of functions of the C calling convention, which are
// called one after the other before `main`; this adds one. Linux's passes it arguments that it does not
// take, as C allows and the platform's convention makes harmless. It allocates and takes a lock, for
// which neither the standard library nor an allocator needs `main`; libraries such as libtorch are
// initialised before the programs that use them.
//
// rustc names what is `#[used]` in the link of every program and library that this crate is part of, so
// that its object file is linked even if nothing else of it is.
#[used]
#[cfg_attr(target_os = "linux", unsafe(link_section = ".init_array"))]
#[cfg_attr(target_os = "macos", unsafe(link_section = "__DATA,__mod_init_func"))]
static AT_LOAD: extern "C" fn() = register;
