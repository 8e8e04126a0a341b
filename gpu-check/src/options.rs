//! What is to be checked, and with what.

use std::path::PathBuf;

/// Which checks, and with what.
#[derive(Debug, Default, PartialEq)]
pub struct Options {
    /// All if there is none.
    pub only: Vec<String>,
    /// A Python with a PyTorch that uses CUDA; else `python3` is asked.
    pub python: Option<PathBuf>,
    /// A Python with HolisticTraceAnalysis.
    pub trace_reader: Option<PathBuf>,
    /// Where the trace and the table of the run are to be kept.
    pub fixtures: Option<PathBuf>,
    /// Only whether there is a GPU is asked, by the exit status.
    pub only_looks: bool,
}

impl Options {
    /// Whether a check is to run.
    pub fn wants(&self, check: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| name == check)
    }
}
