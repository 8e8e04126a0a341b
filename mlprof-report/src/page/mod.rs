//! HTML page: one self-contained file with all reports.
//!
//! The file contains everything that the page needs:
//!
//! - Tables that are complete without scripts.
//! - One script that sorts, searches and groups them and draws icicle charts.
//! - One style sheet.
//! - The values as JSON.
//!
//! The page's content security policy allows only this script and this style sheet, identified by
//! their hashes. It allows no network requests.
//!
//! `cargo xtask page` bundles the script from `page/`, and the bundle is part of the repository.
//! The script uses no chart library. d3-flame-graph adds 279 KB, as much as a whole page may have,
//! and requires styles that the policy forbids. uPlot draws only with a script, while the step
//! chart and memory over time must also be visible without one and in print.

mod advanced;
#[cfg(feature = "comparison")]
mod comparison;
mod devices;
mod findings;
mod finest;
mod limits;
mod lines;
mod memory;
mod memory_over_time;
mod nesting;
mod numerics;
mod packed;
mod ranks;
mod run;
mod samples;
pub(crate) mod sections;
mod simple;
mod steps;
mod summary;
mod table;
mod tensor;
mod text;
mod threads;

use std::fmt::Write;

use serde_json::Value;

#[cfg(feature = "comparison")]
pub use self::comparison::comparison;
use self::limits::{LeftOut, Limits, prune};
use self::sections::Section;
use self::summary::Run;
use crate::Report;
use crate::finding::Finding;
use crate::findings::Rules;
use crate::number::grouped;

const SCRIPT: &str = include_str!("bundle/page.js");
const STYLE: &str = include_str!("bundle/page.css");
/// Content security policy with the hashes of the script and the style sheet.
const POLICY: &str = include_str!("bundle/policy.txt");

/// Maximum size of a page in bytes, independent of the length of the run. Notes have no limit and
/// can exceed it.
pub const LARGEST: usize = 3_000_000;

/// Renders several reports of one run as one HTML file. They can be of different kinds, stages and
/// ranks.
///
/// The page has at most [`LARGEST`] bytes, and it counts the data that was left out. Numbers in its
/// JSON are rounded to six digits. Findings in the reports (JSON array `findings`) appear at the
/// top.
///
/// ```
/// use mlprof_core::report::page;
/// use mlprof_core::{Profiler, ProfilerExt, SimpleProfiler};
///
/// let profiler = SimpleProfiler::new();
/// drop(profiler.profile("load </script> data"));
/// let html = page::html(&[profiler.report().expect("a report")]);
/// assert!(html.starts_with("<!doctype html>") && html.contains("load &lt;/script&gt; data"));
/// ```
pub fn html(reports: &[Report]) -> String {
    html_by(reports, &Rules::new())
}

/// Renders the reports with custom thresholds for the rules that compare ranks. Their findings
/// appear at the top, together with the findings of the reports.
pub fn html_by(reports: &[Report], rules: &Rules) -> String {
    with_sections(reports, &[], rules)
}

/// Renders the reports with additional sections below them.
fn with_sections(reports: &[Report], sections: &[Section], rules: &Rules) -> String {
    let of_ranks = rules.found_in_ranks(reports);
    within_size(|limits| with_limits(reports, sections, &of_ranks, limits))
}

/// Returns the reports in a page, rounded and without the data that was left out. Returns `None` if
/// it is not a page of reports, or if its version uses another format.
#[cfg(feature = "read")]
pub fn reports_in(html: &str) -> Option<Vec<Report>> {
    let (_, rest) = html.split_once(REPORTS)?;
    let (json, _) = rest.split_once("</script>")?;
    let mut values = packed::unpacked(serde_json::from_str(json).ok()?)?;
    // The list also contains the values of sections, which are not reports.
    values.as_array_mut()?.retain(|value| value["profiler"] != sections::PROFILER);
    serde_json::from_value(values).ok()
}

/// Tag before the reports. It is unique, because tags in text are escaped.
const REPORTS: &str = "<script type=\"application/json\" id=reports>";

/// Returns the first page with at most [`LARGEST`] bytes. Each attempt halves the limits, down to
/// their minimum.
fn within_size(page: impl Fn(Limits) -> String) -> String {
    let mut limits = Limits::FIRST;
    loop {
        let page = page(limits);
        let half = limits.half();
        if page.len() <= LARGEST || half == limits {
            return page;
        }
        limits = half;
    }
}

/// Position of one report in the page, and its limits.
struct Part {
    /// Index of the report in the page, from 0.
    index: usize,
    limits: Limits,
}

impl Part {
    /// Writes a heading with an anchor. It begins a new block, and wide windows have several blocks
    /// side by side. Writing into a string cannot fail, so the results are
    /// ignored here and below.
    fn heading(&self, html: &mut String, id: &str, title: &str) {
        let _ = writeln!(html, "</div>\n<div class=block><h3 id=r{}-{id}>{title}</h3>", self.index);
    }

    /// Writes a placeholder for an icicle chart of one of the report's trees.
    fn icicle(&self, html: &mut String, tree: &str, about: &str) {
        let _ = writeln!(
            html,
            "<div class=icicle data-report={} data-tree={tree} data-about=\"{}\"></div>",
            self.index,
            text::escape(about)
        );
    }
}

fn with_limits(
    reports: &[Report],
    sections: &[Section],
    of_ranks: &[(usize, Finding)],
    limits: Limits,
) -> String {
    let mut left_out = LeftOut::default();
    let mut pruned: Vec<Report> =
        reports.iter().map(|report| prune(report, limits, &mut left_out)).collect();
    let mut values: Vec<Value> = reports
        .iter()
        .zip(&mut pruned)
        .map(|(report, pruned)| value(report, pruned, limits))
        .collect();
    values.extend(sections.iter().map(|section| sections::value(section, limits)));
    values.iter_mut().for_each(round);
    values.iter_mut().for_each(leave_out_nothing);
    let mut html = String::new();
    let mut titles = run::titles(reports);
    titles.extend(sections.iter().map(|section| text::sentence(&section.title)));
    let title = match titles.as_slice() {
        [] => "no reports".to_owned(),
        [title] => title.clone(),
        titles => format!("{} and {} more", titles[0], titles.len() - 1),
    };
    let runs = summary::runs(reports);
    let mut links = summary::navigation(&runs, &titles);
    for (index, title) in titles.iter().enumerate().skip(reports.len()) {
        let _ = write!(links, "<a href=\"#r{index}\">{title}</a>");
    }
    write_head(&mut html, &title, &links);
    let findings = findings::Lists::of(&values, of_ranks);
    for (number, run) in runs.iter().enumerate() {
        let counts = findings.counts(&run.reports);
        summary::write(&mut html, number, run, reports, counts);
    }
    write_left_out(&mut html, &left_out);
    sections::write_left_out(&mut html, sections, limits);
    findings.write(&mut html, &titles);
    for group in ranks::groups(reports) {
        html.push_str("<section><h2>Ranks</h2>");
        let part = Part { index: 0, limits };
        ranks::write_held_up(&mut html, &group, &part);
        ranks::write(&mut html, &group, &part);
        html.push_str("</section>\n");
    }
    for run in &runs {
        write_steps(&mut html, run, reports, &pruned, limits);
        for index in run.reports.iter().copied() {
            let (report, pruned) = (&reports[index], &pruned[index]);
            let title = match runs.len() {
                1 => run.short_title(&titles[index]),
                _ => &titles[index],
            };
            write_report(&mut html, report, pruned, title, run, &Part { index, limits });
        }
    }
    for (index, section) in (reports.len()..).zip(sections) {
        sections::write(&mut html, section, &Part { index, limits });
    }
    let values = values.into_iter().map(packed::packed).collect();
    let json = serde_json::to_string(&Value::Array(values)).unwrap_or_default();
    let _ = write!(
        html,
        "</main>\n{REPORTS}{}</script>\n<script>{SCRIPT}</script>\n",
        text::json(&json)
    );
    html
}

/// Returns the JSON value of a report for the page's script. For the op table it also contains the
/// indices of the shown rows, and the data that completes these rows.
fn value(report: &Report, pruned: &mut Report, limits: Limits) -> Value {
    let mut of_table: Vec<(&str, Value)> = Vec::new();
    if let (Report::Tensor(report), Report::Tensor(pruned)) = (report, &mut *pruned) {
        let same = finest::take_same_rows(report, &mut pruned.finest_rows, limits);
        let places = tensor::places_of_shown(report, limits.rows);
        of_table.push(("table_rows", places.into()));
        of_table.push(("same_rows", serde_json::to_value(same).unwrap_or(Value::Null)));
    }
    let mut value = serde_json::to_value(&*pruned).unwrap_or(Value::Null);
    if let Some(fields) = value.as_object_mut() {
        fields.extend(of_table.into_iter().map(|(name, value)| (name.to_owned(), value)));
    }
    value
}

/// Rounds all numbers to six significant digits, which exceeds the measurement precision and
/// reduces the text to a third.
fn round(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let rounded = number.as_f64().and_then(|number| format!("{number:.5e}").parse().ok());
            if let Some(rounded) = rounded.and_then(serde_json::Number::from_f64) {
                *number = rounded;
            }
        }
        Value::Array(values) => values.iter_mut().for_each(round),
        Value::Object(fields) => fields.values_mut().for_each(round),
        _ => {}
    }
}

/// Removes fields that are 0, `false`, empty or null from op rows, because there are many rows.
/// Readers use the same defaults.
fn leave_out_nothing(report: &mut Value) {
    let rows = report.pointer_mut("/key_averages/rows").and_then(Value::as_array_mut);
    for row in rows.into_iter().flatten().filter_map(Value::as_object_mut) {
        row.retain(|field, value| field == "calls" || !is_nothing(value));
    }
}

fn is_nothing(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(false) => true,
        Value::Number(number) => number.as_f64() == Some(0.0),
        Value::Array(values) => values.is_empty(),
        Value::Bool(true) | Value::String(_) | Value::Object(_) => false,
    }
}

/// Writes the head of the page. `links` is the HTML of the navigation.
fn write_head(html: &mut String, title: &str, links: &str) {
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta http-equiv=Content-Security-Policy content=\"{POLICY}\">\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n<title>{title} – mlprof</title>\n\
         <style>{STYLE}</style>\n<header><h1>mlprof</h1><nav aria-label=Reports>{links}</nav>\
         </header>\n<main>\n"
    );
}

fn write_left_out(html: &mut String, left_out: &LeftOut) {
    if left_out.is_nothing() {
        return;
    }
    let parts = [
        (left_out.rows, "rows of tables"),
        (left_out.places, "nodes of trees"),
        (left_out.lines, "lines of source"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        parts.map(|(count, what)| format!("{} {what}", grouped(*count as u64))).collect();
    let _ = writeln!(
        html,
        "<p class=note>To keep the page small, the entries with the lowest cost are left out: {}. \
         The JSON reports have all of them.</p>",
        parts.join(", ")
    );
}

/// Writes the steps of a run, once for each stage and rank. All but the first are collapsed.
fn write_steps(
    html: &mut String,
    run: &Run,
    reports: &[Report],
    pruned: &[Report],
    limits: Limits,
) {
    let shown = steps::shown_of(&run.reports, reports);
    if shown.is_empty() {
        return;
    }
    let _ = writeln!(html, "<section class=steps><div>");
    for (place, index) in shown.iter().copied().enumerate() {
        let (report, pruned) = (&reports[index], &pruned[index]);
        let title = steps::title(report, shown.len() > 1);
        let part = Part { index, limits };
        if place > 0 {
            let _ = write!(html, "</div>\n<details><summary>{title}</summary><div>");
        }
        steps::write(html, report.step_series(), pruned.step_series(), &title, &part);
        if place > 0 {
            html.push_str("</div></details><div>");
        }
    }
    html.push_str("</div></section>\n");
}

/// Writes one report. `pruned` is the report as reduced for the page. Tables with sums use the
/// whole report. The header of `run` already shows some of the report's properties.
fn write_report(
    html: &mut String,
    report: &Report,
    pruned: &Report,
    title: &str,
    run: &Run,
    part: &Part,
) {
    let _ = writeln!(html, "<section class=report id=r{}><h2>{title}</h2>", part.index);
    run::write(html, report, |fact| run.has_fact(fact), |note| run.has_note(note));
    html.push_str("<div class=blocks><div class=block>");
    match report {
        Report::Lines(_) => {
            let Report::Lines(pruned) = pruned else { return };
            lines::write(html, pruned, part);
        }
        Report::Simple(report) => simple::write(html, report, part),
        Report::Advanced(report) => advanced::write(html, report, part),
        Report::Tensor(report) => {
            let Report::Tensor(pruned) = pruned else { return };
            tensor::write(html, report, &pruned.memory_over_time, part);
        }
        Report::Memory(report) => memory::write(html, report, part),
        Report::Samples(report) => samples::write(html, &report.samples, part),
        Report::Numerics(report) => numerics::write(html, report, part),
    }
    html.push_str("</div></div></section>\n");
}

#[cfg(all(test, not(loom)))]
mod tests;
