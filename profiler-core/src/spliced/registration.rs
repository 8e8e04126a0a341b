//! Registers this copy of the crate with the runtime library, before `main`.

use std::ffi::c_void;

use super::sink::{Sink, sink};

/// Function exported by the runtime library: `extern "C" fn(&'static Sink)`.
const REGISTER: &std::ffi::CStr = c"mlprof_register";

/// Registers the sink if the program is linked with the runtime library. Libraries are initialised
/// before programs, so a program's own copy registers after the runtime's copy and replaces it.
fn register() {
    // SAFETY: `dlsym` only looks up the name, which is a valid C string.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, REGISTER.as_ptr()) };
    if found.is_null() {
        return;
    }
    // SAFETY: the runtime library's function of this name has this type in every version.
    let register =
        unsafe { std::mem::transmute::<*mut c_void, extern "C" fn(&'static Sink)>(found) };
    register(sink());
}

// SAFETY: without a runtime library, the function makes one libc call. With one, it uses the
// standard library. On Linux, files, threads and locks of the standard library work before `main`.
mlprof_events::before_main!(unsafe register);
