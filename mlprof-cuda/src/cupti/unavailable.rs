//! Why there is no device data, in words that say what to do.

use std::path::PathBuf;

use crate::locate_cupti::VARIABLE;

/// CUPTI cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    /// There is no driver, so no device either.
    #[error("{0}")]
    NoDriver(String),
    /// libcupti is in none of the places where it is looked for.
    #[error(
        "libcupti was not found: it comes with CUDA's toolkit and with Python's package \
         nvidia-cuda-cupti; {VARIABLE} may name the file"
    )]
    NotFound,
    /// It would not be there: its names and its layout are known for Linux.
    #[error("they are collected on Linux only")]
    Platform,
    /// It is there and cannot be used.
    #[error("{} cannot be used: {error}", path.display())]
    Library {
        /// The file.
        path: PathBuf,
        /// Why.
        error: String,
    },
    /// Somebody else uses it.
    #[error(
        "{} is using CUPTI, which allows one user at a time: stop it, or profile without it",
        name.as_deref().unwrap_or(
            "another tool (Nsight Systems, Nsight Compute, a debugger, torch's own profiler)"
        )
    )]
    Claimed {
        /// What it calls itself, if it says so.
        name: Option<String>,
    },
    /// The driver does not allow it.
    #[error(
        "the driver allows profiling to administrators only ({0}): load it with \
         NVreg_RestrictProfilingToAdminUsers=0, give a container the capability SYS_ADMIN, or run as \
         root"
    )]
    NotPermitted(String),
    /// Mostly since the driver is older than the library.
    #[error(
        "{} does not start with this driver ({name}), which may be older than it: take the libcupti \
         of the CUDA version that the driver knows; {VARIABLE} may name the file",
        path.display()
    )]
    DoesNotStart {
        /// The file.
        path: PathBuf,
        /// Of the error.
        name: String,
    },
    /// A kind of device that CUPTI does not support.
    #[error("CUPTI does not work here ({0})")]
    NotSupported(String),
    /// Anything else.
    #[error("{function} fails with {name}")]
    Failed {
        /// Which function.
        function: &'static str,
        /// The name of the error.
        name: String,
    },
}

impl Unavailable {
    /// What the report says.
    pub(super) fn note(&self) -> String {
        format!("no kernels and copies of CUDA: {self}. What the host did is shown")
    }
}
