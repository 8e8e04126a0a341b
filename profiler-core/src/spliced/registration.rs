//! How the runtime library learns of this copy of the crate, before `main`.

use std::ffi::c_void;

use super::sink::{Sink, sink};

/// What the runtime library exports: `extern "C" fn(&'static Sink)`.
const REGISTER: &std::ffi::CStr = c"mlprof_register";

/// Tells the runtime library, if the program was linked with it. Libraries are initialised before
/// programs: a program's own copy comes after the runtime's, and takes its place.
fn register() {
    // SAFETY: looks for a name, which is a C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, REGISTER.as_ptr()) };
    if found.is_null() {
        return;
    }
    // SAFETY: the runtime library's function of this name has this type, in every version.
    let register =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(&'static Sink)>(found) };
    register(sink());
}

// SAFETY: where there is no runtime library it makes one call of libc; where there is one, it uses the
// standard library, which on Linux needs no preparation for files, threads and locks.
mlprof_events::before_main!(unsafe register);
