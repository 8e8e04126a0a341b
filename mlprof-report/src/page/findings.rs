//! HTML of the findings in the reports: advice first, then hints.

use std::fmt::Write;

use serde_json::Value;

use super::text;
use crate::finding::Finding;
use crate::table::Unit;

/// Findings of a page in descending order of savings. Each one has the indices of its reports.
pub(super) struct Lists {
    advice: Vec<(Vec<usize>, Value)>,
    hints: Vec<(Vec<usize>, Value)>,
}

impl Lists {
    /// Collects all findings of the reports. `of_ranks` contains findings from the comparison of
    /// ranks, each with the index of its report.
    pub(super) fn of(reports: &[Value], of_ranks: &[(usize, Finding)]) -> Self {
        let mut findings: Vec<(usize, Value)> = of_ranks
            .iter()
            .filter_map(|(index, finding)| Some((*index, serde_json::to_value(finding).ok()?)))
            .collect();
        for (index, report) in reports.iter().enumerate() {
            let own = report.get("findings").and_then(Value::as_array);
            findings.extend(own.into_iter().flatten().map(|finding| (index, finding.clone())));
        }
        let cost = |finding: &Value| number(finding, "/cost/seconds").unwrap_or(0.0);
        findings.sort_by(|(_, one), (_, other)| cost(other).total_cmp(&cost(one)));
        let is_hint =
            |finding: &Value| finding.get("confidence").and_then(Value::as_str) == Some("hint");
        let (hints, advice) = once(findings).into_iter().partition(|(_, it)| is_hint(it));
        Self { advice, hints }
    }

    /// Returns the numbers of findings with advice and of hints in these reports.
    pub(super) fn counts(&self, reports: &[usize]) -> [usize; 2] {
        let is_own = |(of, _): &&(Vec<usize>, Value)| of.iter().any(|it| reports.contains(it));
        [&self.advice, &self.hints].map(|list| list.iter().filter(is_own).count())
    }

    /// Writes the findings. Each one has the title of its report if there are several reports.
    /// Writes no HTML without findings.
    pub(super) fn write(&self, html: &mut String, titles: &[String]) {
        let lists =
            [("findings", "What to do", &self.advice), ("hints", "Worth a look", &self.hints)];
        if lists.iter().all(|(_, _, list)| list.is_empty()) {
            return;
        }
        html.push_str("<div class=sides>");
        for (id, heading, findings) in lists.into_iter().filter(|(_, _, list)| !list.is_empty()) {
            let _ = write!(html, "<section id={id}><h2>{heading}</h2>");
            if id == "hints" {
                html.push_str(
                    "<p class=quiet>These may be intended. The console does not show \
                               them.</p>",
                );
            }
            html.push_str("<ol class=findings>");
            for (reports, finding) in findings {
                write_one(html, reports, finding, titles);
            }
            html.push_str("</ol></section>\n");
        }
        html.push_str("</div>\n");
    }
}

/// Merges equal findings and returns each one with all its reports. Several profilers of one run
/// find the same problems. The input is ordered, so the instance with the highest cost is kept.
fn once(findings: Vec<(usize, Value)>) -> Vec<(Vec<usize>, Value)> {
    let mut once: Vec<(Vec<usize>, Value)> = Vec::new();
    for (report, finding) in findings {
        let is_same = |other: &Value| {
            ["rule", "sentence", "place", "remedy"]
                .iter()
                .all(|it| other.get(it) == finding.get(it))
        };
        match once.iter_mut().find(|(_, other)| is_same(other)) {
            Some((reports, _)) => reports.push(report),
            None => once.push((vec![report], finding)),
        }
    }
    once
}

/// Returns the costs as text: time or memory. The list is empty if the finding affects only the
/// training result.
fn costs(finding: &Value) -> Vec<String> {
    if finding.pointer("/cost/is_of_learning").and_then(Value::as_bool) == Some(true) {
        return Vec::new();
    }
    if let Some(bytes) = number(finding, "/cost/bytes") {
        return vec![format!("{} of memory", Unit::Bytes.write(bytes))];
    }
    let mut costs = Vec::new();
    if let Some(seconds) = number(finding, "/cost/seconds_per_step") {
        costs.push(format!("{} a step", Unit::Seconds.write(seconds)));
    }
    if let Some(seconds) = number(finding, "/cost/seconds") {
        costs.push(format!("{} of the run", Unit::Seconds.write(seconds)));
    }
    if let Some(share) = number(finding, "/cost/share") {
        costs.push(Unit::Share.write(share));
    }
    costs
}

/// Writes one finding. Writing into a string cannot fail, so the results are ignored.
fn write_one(html: &mut String, reports: &[usize], finding: &Value, titles: &[String]) {
    let report = reports.first().copied().unwrap_or_default();
    let words = |field: &str| match finding.get(field) {
        Some(Value::String(text)) => text::sentence(text),
        _ => String::new(),
    };
    let _ = write!(html, "<li><p class=sentence><b>{}</b>", words("sentence"));
    let costs = costs(finding);
    if !costs.is_empty() {
        let is_estimated = finding.pointer("/cost/is_estimated").and_then(Value::as_bool);
        let how = if is_estimated == Some(true) { "an estimate:" } else { "at most" };
        let _ = write!(html, " <span class=cost>{how} {}</span>", costs.join(", "));
    }
    let remedy =
        finding.get("remedy").and_then(Value::as_str).map_or_else(String::new, text::advice);
    let _ = write!(html, "</p><p>{remedy}</p><p class=quiet>");
    let evidence = finding.get("evidence").and_then(Value::as_array);
    let evidence = evidence.into_iter().flatten().filter_map(|piece| {
        let what = text::sentence(piece.get("what")?.as_str()?);
        let value = match piece.get("value")? {
            Value::String(text) => text::sentence(text),
            Value::Number(number) => text::escape(&number.to_string()),
            _ => return None,
        };
        Some(format!("{what}: {value}"))
    });
    let mut parts: Vec<_> = evidence.collect();
    if let Some(Value::Object(place)) = finding.get("place") {
        let places = place.iter().filter_map(|(what, value)| {
            let value = match value {
                Value::String(text) => text::name(text, 160),
                Value::Number(number) => text::escape(&number.to_string()),
                _ => return None,
            };
            Some(format!("{}: <a href=\"#r{report}\" data-row>{value}</a>", text::sentence(what)))
        });
        parts.extend(places);
    }
    if !words("confidence").is_empty() {
        parts.push(format!("confidence: {}", words("confidence")));
    }
    if !words("rule").is_empty() {
        parts.push(format!("rule: {}", words("rule")));
    }
    let links = reports.iter().filter_map(|report| {
        let title = titles.get(*report).filter(|_| titles.len() > 1)?;
        Some(format!("<a href=\"#r{report}\">{title}</a>"))
    });
    let links: Vec<_> = links.collect();
    if !links.is_empty() {
        parts.push(format!("in: {}", links.join(", ")));
    }
    let _ = write!(html, "{}</p>", parts.join(" · "));
}

fn number(value: &Value, pointer: &str) -> Option<f64> {
    value.pointer(pointer).and_then(Value::as_f64)
}
