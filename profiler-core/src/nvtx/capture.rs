//! Calls `cuProfilerStart` and `cuProfilerStop`, which select the part of a run that an NVIDIA tool
//! collects.

use std::ffi::CStr;

use crate::driver_library;

type Control = unsafe extern "C" fn() -> u32;

fn control(name: &CStr) -> Result<(), String> {
    let library = driver_library::library()?;
    let said = name.to_string_lossy();
    // SAFETY: this is only called for `cuProfilerStart` and `cuProfilerStop`, and both have the
    // type `Control`.
    let function: Option<Control> = unsafe { driver_library::function(library, name) };
    let function = function
        .ok_or_else(|| format!("cannot query the CUDA driver: it has no function {said}"))?;
    // SAFETY: the function takes no arguments and may be called at any time on any thread.
    match unsafe { function() } {
        0 => Ok(()),
        201 | 3 => Err(format!("{said}: there is no CUDA context yet")),
        other => Err(format!("{said}: CUDA error {other}")),
    }
}

/// Starts collection by tools.
///
/// # Errors
///
/// Returns an error message if there is no CUDA driver, or if the driver refuses.
pub(super) fn start() -> Result<(), String> {
    control(c"cuProfilerStart")
}

/// Stops collection by tools.
///
/// # Errors
///
/// Returns an error message if there is no CUDA driver, or if the driver refuses.
pub(super) fn stop() -> Result<(), String> {
    control(c"cuProfilerStop")
}
