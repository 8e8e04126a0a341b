//! STUB being written
use crate::{Action, NeverStarted, Profiler, Output, report::AdvancedReport};
/// How many lines of an action's table are shown.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub enum LineCountRestriction { 
    /// So many lines.
    Lines(usize),
    /// This share of the lines, 0..1
    Share(f64), }
/// Advanced
#[derive(Default)]
pub struct AdvancedProfiler { output: Output }
impl AdvancedProfiler {
    /// new
    pub fn new() -> Self { Self::default() }
    /// dir
    pub fn dirpath(mut self, d: impl Into<std::path::PathBuf>) -> Self { self.output = self.output.dirpath(d); self }
    /// file
    pub fn filename(mut self, d: impl Into<String>) -> Self { self.output = self.output.filename(d); self }
    /// limit
    pub fn line_count_restriction(self, _r: LineCountRestriction) -> Self { self }
    /// dump
    pub fn dump_stats(self, _yes: bool) -> Self { self }
    /// numbers
    pub fn snapshot(&self) -> AdvancedReport { unimplemented!() }
}
impl Profiler for AdvancedProfiler {
    fn start(&self, _: Action) {}
    fn stop(&self, _: Action) -> Result<(), NeverStarted> { Ok(()) }
    fn output(&self) -> Option<&Output> { Some(&self.output) }
}
