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
        "libcupti was not found; install the CUDA toolkit or the Python package nvidia-cuda-cupti, or set \
         {VARIABLE} to the file"
    )]
    NotFound,
    /// The platform is not Linux, for which alone the library names and record layouts are known.
    #[error("only Linux is supported")]
    Platform,
    /// A library was found but cannot be used.
    #[error("cannot use {}: {error}", path.display())]
    Library {
        /// Path of the library.
        path: PathBuf,
        /// Error message.
        error: String,
    },
    /// Another tool uses CUPTI.
    #[error(
        "{} is using CUPTI, which allows only one user at a time; stop that tool, or profile without CUPTI",
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
        "the driver allows only administrators to profile ({0}); load it with \
         NVreg_RestrictProfilingToAdminUsers=0, give the container the capability SYS_ADMIN, or run as root"
    )]
    NotPermitted(String),
    /// CUPTI does not start, usually because the driver is older than the library.
    #[error(
        "{} does not start with this driver ({name}), which may be too old; use the libcupti of the driver's \
         CUDA version, or set {VARIABLE} to the file",
        path.display()
    )]
    DoesNotStart {
        /// Path of the library.
        path: PathBuf,
        /// Name of the error.
        name: String,
    },
    /// CUPTI does not support this kind of device.
    #[error("CUPTI does not support this device or system ({0})")]
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
        format!("no CUDA kernels and copies: {self}; the report shows only host times")
    }
}
