//! The CUDA driver library, loaded on first use and never unloaded.

use std::ffi::{CStr, OsString};
use std::sync::OnceLock;

use crate::dynamic_library::Library;
use mlprof_events::environment::variable;
use mlprof_events::forking::made_once;

/// Environment variable with the path of the library, which overrides the system's search path.
const OVERRIDE: &str = "MLPROF_CUDA_DRIVER";
const NAME: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// Returns the library, or the reason why it cannot be loaded. The result is computed once per
/// process.
///
/// *Cost*: one atomic load, except for the first call, which takes some milliseconds.
pub fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let load = || {
        let path = variable(OVERRIDE).filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| OsString::from(NAME));
        // SAFETY: loading runs the initialisers of the CUDA driver library, which have no
        // preconditions.
        unsafe { Library::new(path) }
            .map_err(|error| format!("cannot query the CUDA driver: {error}"))
    };
    made_once(&LIBRARY, load).as_ref().map_err(String::as_str)
}

/// Returns the function `name`, or `None` if the library does not export it.
///
/// # Safety
///
/// `F` must be a function pointer type that matches the signature of that function.
pub unsafe fn function<F: Copy>(library: &'static Library, name: &CStr) -> Option<F> {
    // SAFETY: the caller guarantees that `F` is the type of the symbol. The library is never
    // unloaded, so the copied pointer stays valid.
    unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok().map(|function| *function)
}
