//! Analysis results as sections of an HTML page: the console tables with bars and a drawn critical
//! path.

use mlprof_report::Report;
use mlprof_report::internals::sections::{self, Section};
use mlprof_report::number::grouped;
use mlprof_report::ranks::numbers;

use crate::analysis::Analysis;
use crate::ranks::Ranks;
use crate::sections::{of_analysis, of_ranks, time};

/// Maximum number of traces with a section of their own. The multi-rank section still includes all
/// traces.
const TRACES: usize = 16;

/// HTML page under construction. It contains reports of the run, the multi-rank results and one
/// section per trace.
///
/// The page has at most 3 MB for any trace size, and it counts the rows that it omits. It works
/// without scripts or network access. Its JSON contains only the data of its pictures, so use
/// `mlprof analyze --json` for the complete results.
///
/// ```
/// use mlprof_analysis::{Analysis, kineto, page::Page};
///
/// let json = br#"{"traceEvents":[
///     {"ph":"X","cat":"user_annotation","name":"ProfilerStep#1","pid":1,"tid":1,
///      "ts":0,"dur":10}]}"#;
/// let mut page = Page::default();
/// page.add("run.json", &Analysis::of(&kineto::read(json.as_slice())?));
/// assert!(page.html(&[], None).contains("Critical path"));
/// # Ok::<(), mlprof_analysis::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Page {
    traces: Vec<Section>,
    notes: Vec<String>,
    left_out: usize,
}

impl Page {
    /// Adds the analysis of a trace file. After 16 traces, further ones are only counted and use no
    /// memory.
    pub fn add(&mut self, file: &str, analysis: &Analysis) {
        match self.traces.len() {
            TRACES => self.left_out += 1,
            _ => self.traces.push(section(file, analysis)),
        }
    }

    /// Adds a note for the reader, for example about an unreadable trace.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Renders the page with `reports` of the same run first, then the results of `ranks`, then one
    /// section per trace.
    pub fn html(self, reports: &[Report], ranks: Option<&Ranks>) -> String {
        let mut all = Vec::new();
        all.extend(ranks.map(section_of_ranks));
        all.extend(self.traces);
        if let Some(first) = all.first_mut() {
            first.notes.extend(self.notes);
            if self.left_out > 0 {
                first.notes.push(format!(
                    "{} more traces have no section in this page; run mlprof analyze with fewer traces to see \
                     them",
                    grouped(self.left_out as u64)
                ));
            }
        }
        sections::html(reports, &all)
    }
}

fn section(file: &str, analysis: &Analysis) -> Section {
    let mut title = "Trace".to_owned();
    if let Some(stage) = &analysis.stage {
        title.push_str(&format!(" · {stage}"));
    }
    if analysis.world_size > 1 {
        title.push_str(&format!(" · rank {}", analysis.rank));
    }
    let step_count = match analysis.has_steps() {
        true => grouped(analysis.steps.len() as u64),
        false => "none: the window is the whole trace".to_owned(),
    };
    let facts = vec![
        ("Trace", file.to_owned()),
        ("Rank", format!("{} of {}", analysis.rank, analysis.world_size)),
        ("Steps", step_count),
        ("Slices", grouped(analysis.slices)),
        ("Duration", time(analysis.trace_ns)),
    ];
    let mut notes = analysis.notes.clone();
    if analysis.findings.is_empty() && !analysis.checked_rules.is_empty() {
        notes.push(format!("No findings from {}.", analysis.checked_rules.join(", ")));
    }
    Section {
        title,
        facts,
        notes,
        findings: analysis.findings.clone(),
        content: of_analysis(analysis),
    }
}

fn section_of_ranks(ranks: &Ranks) -> Section {
    let world = ranks.world_size as usize;
    let there = world - ranks.missing.len().min(world);
    let facts = vec![
        ("Ranks", format!("{} of {}", grouped(there as u64), grouped(world as u64))),
        ("Common steps", grouped(ranks.common_steps as u64)),
    ];
    let mut notes = ranks.not_judged.clone();
    notes.extend(ranks.notes.iter().cloned());
    if !ranks.missing.is_empty() {
        notes.push(format!("the traces of {} are missing", numbers(&ranks.missing)));
    }
    let (title, content) = ("Ranks".to_owned(), of_ranks(ranks));
    Section { title, facts, notes, content, ..Section::default() }
}

#[cfg(test)]
mod tests;
