//! Libraries that are loaded while the program runs: CUDA's driver, and tools that listen to NVTX.

#[cfg(not(any(unix, windows)))]
mod no_libraries;
#[cfg(unix)]
mod unix;

#[cfg(windows)]
pub(crate) use libloading::{Error, Library};
#[cfg(not(any(unix, windows)))]
pub(crate) use no_libraries::{Error, Library};
#[cfg(unix)]
pub(crate) use unix::{Error, Library};
