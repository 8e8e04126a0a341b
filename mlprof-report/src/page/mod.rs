//! A page: reports as one HTML file that needs nothing else.
//!
//! All of it is in the file: tables that are whole without scripts, one script that sorts, searches and
//! groups them and draws icicles, one style sheet, and the values themselves as JSON. The page's policy
//! allows that script and that style sheet, by their hashes, and no request to anywhere.
//!
//! The script is bundled from `page/` by `cargo xtask page`; the bundle is checked in. It has no library
//! of charts: d3-flame-graph brings 279 KB, which is as much as a whole page may have, and asks for
//! styles that the policy forbids; uPlot draws with a script alone, and the strip of steps and memory over
//! time are to be seen without one, and in print.

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
use crate::Report;
use crate::finding::Finding;
use crate::findings::Rules;
use crate::number::grouped;

const SCRIPT: &str = include_str!("bundle/page.js");
const STYLE: &str = include_str!("bundle/page.css");
/// With the hashes of the two.
const POLICY: &str = include_str!("bundle/policy.txt");

/// No page is larger, in bytes, however long the run, but for what no limit cuts: notes.
pub const LARGEST: usize = 3_000_000;

/// Several reports of one run as one HTML file: kinds, stages, ranks.
///
/// It has at most [`LARGEST`] bytes; what is left out to get there is counted in the page. Numbers in its
/// JSON are rounded to six digits. Reports that
/// have findings in their JSON (an array `findings`) have them on top.
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

/// The same, with thresholds of one's own for what is found by looking at several ranks side by side, which stands on
/// top with the findings that the reports have.
pub fn html_by(reports: &[Report], rules: &Rules) -> String {
    with_sections(reports, &[], rules)
}

/// The same with sections below.
fn with_sections(reports: &[Report], sections: &[Section], rules: &Rules) -> String {
    let of_ranks = rules.found_in_ranks(reports);
    within_size(|limits| with_limits(reports, sections, &of_ranks, limits))
}

/// The reports that a page has, as it has them: rounded, and without what it has left out. `None` if it is no page of
/// reports, or of a version that wrote them in another way.
#[cfg(feature = "read")]
pub fn reports_in(html: &str) -> Option<Vec<Report>> {
    let (_, rest) = html.split_once(REPORTS)?;
    let (json, _) = rest.split_once("</script>")?;
    let mut values = packed::unpacked(serde_json::from_str(json).ok()?)?;
    // Sections have values there, too.
    values.as_array_mut()?.retain(|value| value["profiler"] != sections::PROFILER);
    serde_json::from_value(values).ok()
}

/// What stands before the reports, and nowhere else: text has no such tags.
const REPORTS: &str = "<script type=\"application/json\" id=reports>";

/// The first page of at most [`LARGEST`] bytes, each with half of the one before, or the least that there is.
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

/// One report's place in the page.
struct Part {
    /// Which of the page's reports, from 0.
    index: usize,
    limits: Limits,
}

impl Part {
    /// A heading with an anchor. Writing into a string cannot fail, here and below.
    fn heading(&self, html: &mut String, id: &str, title: &str) {
        let _ = writeln!(html, "<h3 id=r{}-{id}>{title}</h3>", self.index);
    }

    /// Room for a chart of one of the report's trees.
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
    write_head(&mut html, &title, &titles);
    write_left_out(&mut html, &left_out);
    sections::write_left_out(&mut html, sections, limits);
    findings::write(&mut html, &values, of_ranks, &titles);
    for group in ranks::groups(reports) {
        html.push_str("<section><h2>Ranks</h2>");
        let part = Part { index: 0, limits };
        ranks::write_held_up(&mut html, &group, &part);
        ranks::write(&mut html, &group, &part);
        html.push_str("</section>\n");
    }
    for (index, (report, pruned)) in reports.iter().zip(&pruned).enumerate() {
        let same = steps::shown_before(&reports[..=index]).map(|same| (same, &*titles[same]));
        write_report(&mut html, report, pruned, &titles[index], same, &Part { index, limits });
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

/// What scripts read of a report: it, and of its table of ops which of its rows each is, and what else is known of them.
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

/// Six digits are more than anybody measures, and a third of the text.
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

/// In rows of ops, of which there are many, what is 0, empty or not known is left out: whoever reads them, knows.
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

/// `titles`: of the sections to go to.
fn write_head(html: &mut String, title: &str, titles: &[String]) {
    let _ = write!(
        html,
        "<!doctype html>\n<html lang=en>\n<meta charset=utf-8>\n\
         <meta http-equiv=Content-Security-Policy content=\"{POLICY}\">\n\
         <meta name=viewport content=\"width=device-width, initial-scale=1\">\n\
         <meta name=color-scheme content=\"light dark\">\n<title>{title} – mlprof</title>\n\
         <style>{STYLE}</style>\n<header><h1>mlprof</h1><nav aria-label=Reports>"
    );
    for (index, title) in titles.iter().enumerate() {
        let _ = write!(html, "<a href=\"#r{index}\">{title}</a>");
    }
    html.push_str("</nav></header>\n<main>\n");
}

fn write_left_out(html: &mut String, left_out: &LeftOut) {
    if left_out.is_nothing() {
        return;
    }
    let parts = [
        (left_out.rows, "rows of tables"),
        (left_out.places, "places of trees"),
        (left_out.lines, "lines of source"),
    ];
    let parts = parts.iter().filter(|(count, _)| *count > 0);
    let parts: Vec<_> =
        parts.map(|(count, what)| format!("{} {what}", grouped(*count as u64))).collect();
    let _ = writeln!(
        html,
        "<p class=note>So that the page stays small, what costs the least is left out: {}. The reports \
         as JSON have all of it.</p>",
        parts.join(", ")
    );
}

/// `pruned`: the report as the page has it. Tables are of the whole one, where they sum up.
/// `same_steps`: the report above, by its place and title, that shows the steps of this one.
fn write_report(
    html: &mut String,
    report: &Report,
    pruned: &Report,
    title: &str,
    same_steps: Option<(usize, &str)>,
    part: &Part,
) {
    let _ = writeln!(html, "<section class=report id=r{}><h2>{title}</h2>", part.index);
    run::write(html, report);
    match same_steps {
        Some((index, title)) => {
            let link = format!("<a href=\"#r{index}-steps\">{title}</a>");
            let _ = writeln!(html, "<p class=quiet>The steps of this run are shown in {link}.</p>");
        }
        None => steps::write(html, report.step_series(), pruned.step_series(), part),
    }
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
    html.push_str("</section>\n");
}

#[cfg(all(test, not(loom)))]
mod tests;
