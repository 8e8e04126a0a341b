//! STUB being written
use crate::{Action, NeverStarted, Profiler, Output, report::SimpleReport};
/// Layout of text report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum SimpleLayout { 
    /// Lightning's extended table.
    #[default] Extended,
    /// Lightning's plain.
    Plain, 
    /// richer
    Detailed }
/// Simple
#[derive(Default)]
pub struct SimpleProfiler { output: Output, layout: SimpleLayout }
impl SimpleProfiler {
    /// new
    pub fn new() -> Self { Self::default() }
    /// dir
    pub fn dirpath(mut self, d: impl Into<std::path::PathBuf>) -> Self { self.output = self.output.dirpath(d); self }
    /// file
    pub fn filename(mut self, d: impl Into<String>) -> Self { self.output = self.output.filename(d); self }
    /// Lightning's `extended`
    pub fn extended(mut self, yes: bool) -> Self { self.layout = if yes { SimpleLayout::Extended } else { SimpleLayout::Plain }; self }
    /// Richer layout
    pub fn detailed(mut self) -> Self { self.layout = SimpleLayout::Detailed; self }
    /// numbers
    pub fn snapshot(&self) -> SimpleReport { unimplemented!() }
}
impl Profiler for SimpleProfiler {
    fn start(&self, _: Action) {}
    fn stop(&self, _: Action) -> Result<(), NeverStarted> { Ok(()) }
    fn output(&self) -> Option<&Output> { Some(&self.output) }
    fn summary(&self) -> String { "load_data".into() }
}
