//! Console text of an analysis.

use mlprof_report::findings::text::line;
use mlprof_report::internals::{notes, sections};
use mlprof_report::number::grouped;

use crate::analysis::Analysis;
use crate::sections::{of_analysis, time};

/// Number of findings that get a line.
const FINDINGS: usize = 5;
impl Analysis {
    /// Returns the tables for a console, with at most `limit` rows each, or with all rows if it is
    /// `usize::MAX`. A last row stands for the other rows and for those below 0.1 % of the whole.
    pub fn text(&self, limit: usize) -> String {
        let content = sections::text(&of_analysis(self), limit);
        format!("{}{}{content}{}", self.head(), self.findings_text(), notes(&self.notes))
    }

    /// Returns one line for each of the first findings. Without findings, it lists the rules that
    /// were checked.
    fn findings_text(&self) -> String {
        if self.findings.is_empty() && self.checked_rules.is_empty() {
            return String::new();
        }
        if self.findings.is_empty() {
            return format!("\nNo findings from {}.\n", self.checked_rules.join(", "));
        }
        let lines: String = self.findings.iter().take(FINDINGS).map(line).collect();
        format!("\n{lines}")
    }

    fn head(&self) -> String {
        let stage = self.stage.as_ref().map_or_else(String::new, |stage| format!("{stage}, "));
        let steps = match self.has_steps() {
            true => format!("{} steps", self.steps.len()),
            false => "no steps".to_owned(),
        };
        let verdict = self.verdict().map_or_else(String::new, |verdict| verdict + "\n");
        format!(
            "Trace: {stage}rank {} of {}, {steps}, {} slices, {}\n{verdict}",
            self.rank,
            self.world_size,
            grouped(self.slices),
            time(self.trace_ns)
        )
    }
}
