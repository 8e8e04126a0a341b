//! One measurement in all the forms in which it is delivered.

use super::delivery::{Texts, deliver_ranks, deliver_with, write_value};
use super::{Output, tell_missing};
use crate::Report;
#[cfg(feature = "findings")]
use crate::findings::Rules;
use crate::missing::Missing;

/// A report in all its forms: the text, the value that becomes JSON, and files beside them. They
/// are made of one measurement, so that they say the same while threads go on. What
/// `ProfilerExt::render` gives and `Profiler::describe` delivers.
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
#[must_use = "nobody has seen it until it is delivered"]
pub struct RenderedReport {
    text: String,
    /// The text for the console, if it is another one.
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
    /// `report` as a value, and `text`, which is made of it.
    pub fn new(text: impl Into<String>, report: Option<Report>) -> Self {
        Self { text: text.into(), report, ..Self::default() }
    }

    /// Sets the text for the console, which leaves rows out that the [text](Self::text) of files
    /// has. The output decides whether the console gets it: see [`Output::all_rows`].
    pub fn with_console_text(mut self, text: impl Into<String>) -> Self {
        self.console_text = Some(text.into());
        self
    }

    /// Replaces the text, also that for the console, and the value.
    #[doc(hidden)]
    pub fn with_text(self, text: String, report: Option<Report>) -> Self {
        Self { text, console_text: None, report, ..self }
    }

    /// What was asked for and is not in it: said on standard error when it is delivered.
    #[doc(hidden)]
    pub fn with_missing(mut self, missing: Vec<Missing>) -> Self {
        self.missing = missing;
        self
    }

    /// Adds a file of an action, to be written beside it.
    #[doc(hidden)]
    pub fn with_file(mut self, action: String, extension: &'static str, content: Vec<u8>) -> Self {
        self.files.push(File { action, extension, content });
        self
    }

    /// Several as one: the texts one after the other, and the first value that there is.
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

    /// The report as text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The report as the console shows it, unless the output prints [all rows](Output::all_rows).
    pub fn console_text(&self) -> &str {
        self.console_text.as_deref().unwrap_or(&self.text)
    }

    /// The report as a value, if the profiler has one.
    pub fn report(&self) -> Option<&Report> {
        self.report.as_ref()
    }

    /// Delivers it to the file of `output`, or to the console on rank 0, as JSON and as a page if the
    /// output says so, and with the files beside it. With the feature `findings`, what rules
    /// find in the value is told, too, unless the output [says otherwise](Output::findings).
    ///
    /// Never fails: where a file cannot be written it says so once on standard error, and the report
    /// goes to the console.
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
        let findings = report.as_ref().map_or(&[][..], Report::findings);
        let prints_all = output.is_some_and(Output::prints_all_rows);
        let console = self.console_text.as_deref().filter(|_| !prints_all);
        let console = console.unwrap_or(&self.text);
        deliver_with(output, Texts { whole: &self.text, console }, findings);
        if let (Some(output), Some(mut report)) = (output, report) {
            write_value(output, &mut report);
            deliver_ranks(output, &report);
        }
    }
}
