//! Libraries loaded at run time: the CUDA driver and NVTX tools.

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
