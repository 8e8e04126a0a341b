//! One measurement in all its output formats.

use super::delivery::{Conclusions, Texts, deliver_ranks, deliver_with, write_value};
use super::{Output, tell_missing};
use crate::Report;
#[cfg(feature = "findings")]
use crate::findings::Rules;
use crate::missing::Missing;

/// A report in all its forms: the text, the value for JSON, and additional files. They come from
/// one measurement, so they are consistent even while threads continue. `ProfilerExt::render`
/// returns this type, and `Profiler::describe` delivers it.
///
/// ```
/// use mlprof_core::output::RenderedReport;
/// use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
///
/// let profiler = SimpleProfiler::new();
/// drop(profiler.profile("load_data"));
/// let rendered: RenderedReport = profiler.render();
/// assert!(rendered.text().contains("load_data") && rendered.report().is_some());
/// rendered.deliver(profiler.output()); // prints the table
/// ```
#[derive(Debug, Clone, Default)]
#[must_use = "the report is not shown until it is delivered"]
pub struct RenderedReport {
    text: String,
    /// Text for the console, if it differs from `text`.
    console_text: Option<String>,
    report: Option<Report>,
    files: Vec<File>,
    missing: Vec<Missing>,
}

/// A file of one action.
#[derive(Debug, Clone)]
struct File {
    action: String,
    extension: &'static str,
    content: Vec<u8>,
}

impl RenderedReport {
    /// Creates a report from its value and from the text made of it.
    pub fn new(text: impl Into<String>, report: Option<Report>) -> Self {
        Self { text: text.into(), report, ..Self::default() }
    }

    /// Sets the text for the console, which has fewer rows than the [text](Self::text) of files.
    /// [`Output::all_rows`] decides if the console shows it.
    pub fn with_console_text(mut self, text: impl Into<String>) -> Self {
        self.console_text = Some(text.into());
        self
    }

    /// Replaces the text, the console text and the value.
    #[doc(hidden)]
    pub fn with_text(self, text: String, report: Option<Report>) -> Self {
        Self { text, console_text: None, report, ..self }
    }

    /// Sets the missing data. Warnings about it appear on standard error when the report is
    /// delivered.
    #[doc(hidden)]
    pub fn with_missing(mut self, missing: Vec<Missing>) -> Self {
        self.missing = missing;
        self
    }

    /// Adds a file of an action, which is written next to the report.
    #[doc(hidden)]
    pub fn with_file(mut self, action: String, extension: &'static str, content: Vec<u8>) -> Self {
        self.files.push(File { action, extension, content });
        self
    }

    /// Combines several reports. The texts are joined, and the first existing value is used.
    pub fn joined(parts: impl IntoIterator<Item = Self>) -> Self {
        let parts: Vec<_> = parts.into_iter().collect();
        let join = |text: fn(&Self) -> &str| {
            let texts = parts.iter().map(text).filter(|text| !text.is_empty());
            texts.collect::<Vec<_>>().join("\n")
        };
        let mut joined = Self::new(join(Self::text), None);
        if parts.iter().any(|part| part.console_text.is_some()) {
            joined.console_text = Some(join(Self::console_text));
        }
        for part in parts {
            joined.report = joined.report.or(part.report);
            joined.files.extend(part.files);
            joined.missing.extend(part.missing);
        }
        joined
    }

    /// Returns the report as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns the text for the console. It is used unless the output prints [all
    /// rows](Output::all_rows).
    pub fn console_text(&self) -> &str {
        self.console_text.as_deref().unwrap_or(&self.text)
    }

    /// Returns the report as a value, if the profiler has one.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Writes the report to the file of `output`, or prints it on rank 0. It also writes JSON, HTML
    /// and additional files, depending on the output. With the feature `findings`, the findings of
    /// the rules are added unless [disabled](Output::findings). The text begins with the report's
    /// [verdict](Report::verdict) unless [disabled](Output::verdict).
    ///
    /// Never fails. If a file cannot be written, one warning appears on standard error and the
    /// report is printed on the console.
    pub fn deliver(self, output: Option<&Output>) {
        if let Some(output) = output {
            tell_missing(output, &self.missing);
            for file in &self.files {
                output.write_file(Some(&file.action), file.extension, &file.content);
            }
        }
        let report = self.report;
        #[cfg(feature = "findings")]
        let report = match output.is_none_or(|output| !output.omits_findings) {
            true => report.map(|report| Rules::new().annotate(report)),
            false => report,
        };
        let shows_verdict = output.is_none_or(|output| !output.omits_verdict);
        let conclusions = Conclusions {
            verdict: report.as_ref().filter(|_| shows_verdict).and_then(Report::verdict),
            findings: report.as_ref().map_or(&[][..], Report::findings),
        };
        let prints_all = output.is_some_and(Output::prints_all_rows);
        let console = self.console_text.as_deref().filter(|_| !prints_all);
        let console = console.unwrap_or(&self.text);
        deliver_with(output, Texts { whole: &self.text, console }, &conclusions);
        if let (Some(output), Some(mut report)) = (output, report) {
            write_value(output, &mut report);
            deliver_ranks(output, &report);
        }
    }
}
