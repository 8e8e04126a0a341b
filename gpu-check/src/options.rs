//! Options of the checks.

use std::path::PathBuf;

/// The selected checks and their resources.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// Names of the selected checks; empty for all.
    pub only: Vec<String>,
    /// Python with a PyTorch that supports CUDA; otherwise `python3` is used.
    pub python: Option<PathBuf>,
    /// Python with HolisticTraceAnalysis.
    pub trace_reader: Option<PathBuf>,
    /// Folder for the trace and the table of the run.
    pub fixtures: Option<PathBuf>,
    /// Only checks for a GPU and reports it by the exit status.
    pub only_looks: bool,
}

impl Options {
    /// Returns `true` if a check is selected.
    pub fn wants(&self, check: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == check)
    }
}
