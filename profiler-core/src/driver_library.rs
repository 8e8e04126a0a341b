//! The library of CUDA's driver, which is loaded when somebody first asks for it, and stays.

use std::ffi::{CStr, OsString};
use std::sync::OnceLock;

use crate::dynamic_library::Library;
use mlprof_events::environment::variable;
use mlprof_events::forking::made_once;

/// Where the library is, if not where the system looks.
const OVERRIDE: &str = "MLPROF_CUDA_DRIVER";
const NAME: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// The library, or why it cannot be loaded. Asked once per process: later answers are the same.
///
/// *Cost*: one atomic load after the first call, which takes some milliseconds.
pub fn library() -> Result<&'static Library, &'static str> {
    static LIBRARY: OnceLock<Result<Library, String>> = OnceLock::new();
    let load = || {
        let path = variable(OVERRIDE).filter(|path| !path.is_empty());
        let path = path.unwrap_or_else(|| OsString::from(NAME));
        // SAFETY: the driver's library has no requirements for being loaded.
        unsafe { Library::new(path) }
            .map_err(|error| format!("CUDA's driver cannot be asked: {error}"))
    };
    made_once(&LIBRARY, load).as_ref().map_err(String::as_str)
}

/// The function `name`; `None` if the library has none of that name.
///
/// # Safety
///
/// `F` is the type of a pointer to that function.
pub unsafe fn function<F: Copy>(library: &'static Library, name: &CStr) -> Option<F> {
    // SAFETY: the caller knows the type; the library is never closed.
    unsafe { library.get::<F>(name.to_bytes_with_nul()) }.ok().map(|function| *function)
}
