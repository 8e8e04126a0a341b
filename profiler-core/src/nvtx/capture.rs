//! `cuProfilerStart` and `cuProfilerStop`: which part of a run a tool of NVIDIA's collects.

use std::sync::OnceLock;

type Control = unsafe extern "C" fn() -> u32;

struct Functions {
    start: Control,
    stop: Control,
}

const LIBRARY: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

fn functions() -> Result<&'static Functions, String> {
    static FUNCTIONS: OnceLock<Result<Functions, String>> = OnceLock::new();
    let load = || -> Result<Functions, libloading::Error> {
        // SAFETY: the driver's library has no requirements for being loaded.
        let library = unsafe { libloading::Library::new(LIBRARY) }?;
        // SAFETY: the functions of these names have this type.
        let functions = unsafe {
            Functions {
                start: *library.get(b"cuProfilerStart\0")?,
                stop: *library.get(b"cuProfilerStop\0")?,
            }
        };
        std::mem::forget(library);
        Ok(functions)
    };
    let cannot = |error: libloading::Error| format!("CUDA's driver cannot be asked: {error}");
    FUNCTIONS.get_or_init(|| load().map_err(cannot)).as_ref().map_err(Clone::clone)
}

fn control(name: &str, which: impl FnOnce(&Functions) -> Control) -> Result<(), String> {
    let function = which(functions()?);
    // SAFETY: it may be called at any time by any thread.
    match unsafe { function() } {
        0 => Ok(()),
        201 | 3 => Err(format!("{name}: there is no context of CUDA yet")),
        other => Err(format!("{name}: CUDA's error {other}")),
    }
}

/// Tools collect from here on.
///
/// # Errors
///
/// If there is no CUDA driver, or it refuses; in words.
pub(super) fn start() -> Result<(), String> {
    control("cuProfilerStart", |functions| functions.start)
}

/// Tools collect until here.
///
/// # Errors
///
/// As [`start`].
pub(super) fn stop() -> Result<(), String> {
    control("cuProfilerStop", |functions| functions.stop)
}
