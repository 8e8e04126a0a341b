//! Reasons why there is no device data, with a remedy for each.

use std::path::PathBuf;

use crate::locate_cupti::VARIABLE;

/// Reason why CUPTI cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    /// There is no driver, and therefore no device.
    #[error("{0}")]
    NoDriver(String),
    /// libcupti is in none of the searched places.
    #[error(
        "libcupti was not found: it comes with CUDA's toolkit and with Python's package \
         nvidia-cuda-cupti; {VARIABLE} may name the file"
    )]
    NotFound,
    /// The platform is not Linux, for which alone the library names and record layouts are known.
    #[error("they are collected on Linux only")]
    Platform,
    /// A library was found but cannot be used.
    #[error("{} cannot be used: {error}", path.display())]
    Library {
        /// Path of the library.
        path: PathBuf,
        /// Error message.
        error: String,
    },
    /// Another tool uses CUPTI.
    #[error(
        "{} is using CUPTI, which allows one user at a time: stop it, or profile without it",
        name.as_deref().unwrap_or(
            "another tool (Nsight Systems, Nsight Compute, a debugger, torch's own profiler)"
        )
    )]
    Claimed {
        /// Name of that tool, if it states one.
        name: Option<String>,
    },
    /// The driver does not permit profiling.
    #[error(
        "the driver allows profiling to administrators only ({0}): load it with \
         NVreg_RestrictProfilingToAdminUsers=0, give a container the capability SYS_ADMIN, or run as \
         root"
    )]
    NotPermitted(String),
    /// CUPTI does not start, usually because the driver is older than the library.
    #[error(
        "{} does not start with this driver ({name}), which may be older than it: take the libcupti \
         of the CUDA version that the driver knows; {VARIABLE} may name the file",
        path.display()
    )]
    DoesNotStart {
        /// Path of the library.
        path: PathBuf,
        /// Name of the error.
        name: String,
    },
    /// CUPTI does not support this kind of device.
    #[error("CUPTI does not work here ({0})")]
    NotSupported(String),
    /// Any other failure.
    #[error("{function} fails with {name}")]
    Failed {
        /// Name of the failed function.
        function: &'static str,
        /// Name of the error.
        name: String,
    },
}

impl Unavailable {
    /// Returns the note for the report.
    pub(super) fn note(&self) -> String {
        format!("no kernels and copies of CUDA: {self}. What the host did is shown")
    }
}
