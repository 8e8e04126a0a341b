//! `cuProfilerStart` and `cuProfilerStop`: which part of a run a tool of NVIDIA's collects.

use std::ffi::CStr;

use crate::driver_library;

type Control = unsafe extern "C" fn() -> u32;

fn control(name: &CStr) -> Result<(), String> {
    let library = driver_library::library()?;
    let said = name.to_string_lossy();
    // SAFETY: both functions that this is called for have this type.
    let function: Option<Control> = unsafe { driver_library::function(library, name) };
    let function = function
        .ok_or_else(|| format!("CUDA's driver cannot be asked: it has no function {said}"))?;
    // SAFETY: it may be called at any time by any thread.
    match unsafe { function() } {
        0 => Ok(()),
        201 | 3 => Err(format!("{said}: there is no context of CUDA yet")),
        other => Err(format!("{said}: CUDA's error {other}")),
    }
}

/// Tools collect from here on.
///
/// # Errors
///
/// If there is no CUDA driver, or it refuses; in words.
pub(super) fn start() -> Result<(), String> {
    control(c"cuProfilerStart")
}

/// Tools collect until here.
///
/// # Errors
///
/// As [`start`].
pub(super) fn stop() -> Result<(), String> {
    control(c"cuProfilerStop")
}
