//! Delivery of a report to its file, the console, JSON, HTML and the summary of all ranks.

use mlprof_events::{RunContext, files};

use super::console::Console;
use super::{Output, deduplicate};
use crate::finding::Finding;
use crate::findings::text as findings_text;
#[cfg(feature = "html")]
use crate::page;
use crate::{Report, label};

/// A report as text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Texts<'text> {
    /// Full text for files.
    pub(super) whole: &'text str,
    /// Shortened text for the console.
    pub(super) console: &'text str,
}

/// Conclusions from a report.
#[derive(Debug, Clone, Default)]
pub(super) struct Conclusions<'report> {
    /// Sentence above the report.
    pub(super) verdict: Option<String>,
    /// Causes of avoidable cost, listed below the report.
    pub(super) findings: &'report [Finding],
}

impl<'text> From<&'text str> for Texts<'text> {
    fn from(whole: &'text str) -> Self {
        Self { whole, console: whole }
    }
}

/// Writes `report` to the file of `output`, or prints it on rank 0. An empty report is ignored.
///
/// If the file cannot be written, one warning appears on standard error. The report is then printed
/// on the console, regardless of the rank.
pub fn deliver(output: Option<&Output>, report: &str) {
    deliver_with(output, report.into(), &Conclusions::default());
}

/// Delivers a report with its conclusions. The console shows a few lines about the findings, and
/// the file contains all details.
pub(super) fn deliver_with(
    output: Option<&Output>,
    report: Texts<'_>,
    conclusions: &Conclusions<'_>,
) {
    let console = &mut output.map_or_else(Console::standard, Output::console);
    deliver_to(output, report, conclusions, console);
}

pub(super) fn deliver_to<'text>(
    output: Option<&Output>,
    report: impl Into<Texts<'text>>,
    conclusions: &Conclusions<'_>,
    console: &mut Console<'_>,
) {
    let report = report.into();
    if report.whole.is_empty() {
        return;
    }
    let noted = output.map_or_else(String::new, |output| label::notes(&output.state().notes));
    let goes_to_stderr = output.is_some_and(|output| output.prints_to_stderr);
    let Conclusions { verdict, findings } = conclusions;
    let line = |verdict: &String| format!("{verdict}\n");
    let verdict = verdict.as_ref().map_or_else(String::new, line);
    let heading = deduplicate::heading(output.and_then(Output::kind), &verdict);
    let printed = |is_in_a_file| {
        // If the file could not be written, the console shows all rows.
        let text = if is_in_a_file == Some(false) { report.whole } else { report.console };
        format!("{heading}{text}{noted}{}", deduplicate::lines(findings, goes_to_stderr))
    };
    let whole = || format!("{verdict}{}{noted}{}", report.whole, findings_text::whole(findings));
    put(output, whole, printed, console);
}

/// Appends `whole` to the file of `output`, or prints `printed` on rank 0. The argument of
/// `printed` is `true` if the file was written and `None` without a file.
fn put(
    output: Option<&Output>,
    whole: impl FnOnce() -> String,
    printed: impl FnOnce(Option<bool>) -> String,
    console: &mut Console<'_>,
) {
    let Some((output, path)) = output.and_then(|output| Some((output, output.report_path()?)))
    else {
        let run = output.map_or_else(RunContext::from_environment, Output::run);
        if run.rank == 0 {
            console.print(&printed(None));
        }
        return;
    };
    let written = files::append(&path, whole().as_bytes());
    if let Err(error) = &written {
        output.warn_once(&path, error, "The report goes to the console", console);
    }
    let prints = output.always_prints && !output.state().is_silent;
    if written.is_err() || (prints && output.run().rank == 0) {
        console.print(&printed(Some(written.is_ok())));
    }
}

/// Writes `report` as JSON and as HTML next to the text file, if `output` is configured to do so.
pub fn deliver_value(output: Option<&Output>, report: impl FnOnce() -> Option<Report>) {
    let Some(output) = output.filter(|output| output.writes_values()) else {
        return;
    };
    if let Some(mut report) = report() {
        write_value(output, &mut report);
    }
}

pub(super) fn write_value(output: &Output, report: &mut Report) {
    report.header_mut().notes.extend(output.state().notes.iter().cloned());
    if output.writes_json
        && let Ok(json) = report.to_json()
    {
        output.write_file(None, "json", json.as_bytes());
    }
    #[cfg(feature = "html")]
    if output.writes_html {
        let page = page::html(std::slice::from_ref(report));
        output.write_file(None, "html", page.as_bytes());
    }
}

impl Output {
    /// Returns `true` if `output` writes reports as JSON or HTML in addition to the text.
    fn writes_values(&self) -> bool {
        #[cfg(feature = "html")]
        if self.writes_html {
            return true;
        }
        self.writes_json
    }
}

/// Prints, below the report of rank 0, how to combine the reports of all ranks. This version cannot
/// read them.
#[cfg(not(feature = "read"))]
pub(super) fn deliver_ranks(output: &Output, report: &Report) {
    deduplicate::tell_ranks(|| {
        let run = output.run();
        let has_parts = run.rank == 0 && run.world_size > 1 && output.writes_json;
        if has_parts && !report.step_series().is_empty() {
            let text = "\nThe reports of the ranks are not merged here, because the mlprof plugin \
                        lacks the feature `read`: run `mlprof report` with their JSON files.\n";
            put(Some(output), || text.to_owned(), |_| text.to_owned(), &mut output.console());
        }
        has_parts
    });
}

/// Prints the summary of all ranks below the report of rank 0.
#[cfg(feature = "read")]
pub(super) fn deliver_ranks(output: &Output, report: &Report) {
    deduplicate::tell_ranks(|| {
        let text = output.ranks_text(report);
        if let Some(text) = &text {
            put(Some(output), || text.clone(), |_| text.clone(), &mut output.console());
        }
        text.is_some()
    });
}
