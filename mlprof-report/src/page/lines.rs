//! HTML of a line report: source lines with a heat column.

use std::fmt::Write;

use super::Part;
use super::text;
use crate::lines::{FunctionLines, LinesReport};
use crate::number::{bytes, duration, grouped};

/// Number of heat shades in the style sheet, except 0.
const SHADES: f64 = 9.0;

/// Writes a table per function, ordered by time.
pub(super) fn write(html: &mut String, report: &LinesReport, part: &Part) {
    if report.functions.is_empty() {
        return;
    }
    part.heading(html, "lines", "Lines");
    let mut functions: Vec<_> = report.functions.iter().collect();
    functions.sort_by(|one, other| other.total_seconds.total_cmp(&one.total_seconds));
    let lines = functions.iter().flat_map(|function| &function.lines);
    let hottest = lines.map(|line| line.seconds).fold(0.0, f64::max);
    for (index, function) in functions.into_iter().enumerate() {
        write_function(html, function, hottest, index < 5, part);
    }
}

/// Writes the lines of one function. `hottest` is the time in seconds of the slowest line of all
/// functions, so lines of a fast function show no heat.
fn write_function(
    html: &mut String,
    function: &FunctionLines,
    hottest: f64,
    is_open: bool,
    part: &Part,
) {
    let _ = write!(
        html,
        "<details{}><summary><b>{}</b> <span class=quiet>{} in {} calls · {}:{}</span></summary>",
        if is_open { " open" } else { "" },
        text::name(&function.name, part.limits.name),
        duration(function.total_seconds),
        grouped(function.calls),
        text::name(&function.file, part.limits.name),
        function.first_line,
    );
    let has_memory = function.lines.iter().any(|line| line.memory.is_some());
    html.push_str(
        "<div class=scroll><table class=lines aria-label=Lines><thead><tr><th scope=col>Line<th \
         scope=col>Hits<th scope=col>Time<th scope=col>Per hit<th scope=col>Share",
    );
    if has_memory {
        html.push_str("<th scope=col>Memory");
    }
    html.push_str("<th scope=col class=source>Source<tbody>");
    let mut ran = function.lines.iter().peekable();
    let source = function.source.as_deref();
    for number in function.first_line..=function.last_line {
        let line = ran.next_if(|line| line.line == number);
        if source.is_none() && line.is_none() {
            continue;
        }
        let _ = write!(html, "<tr><td class=n>{number}");
        match line {
            None => html.push_str("<td><td><td><td>"),
            Some(line) => {
                let heat = if hottest > 0.0 { line.seconds / hottest } else { 0.0 };
                let share = if function.total_seconds > 0.0 {
                    100.0 * line.seconds / function.total_seconds
                } else {
                    0.0
                };
                let _ = write!(
                    html,
                    "<td class=n>{}<td class=\"n h{}\">{}<td class=n>{}<td class=n>{share:.1} %",
                    grouped(line.hits),
                    (heat * SHADES).round() as u32,
                    duration(line.seconds),
                    duration(line.seconds / line.hits.max(1) as f64),
                );
            }
        }
        if has_memory {
            let memory = line.and_then(|line| line.memory).map_or_else(String::new, |memory| {
                let sign = if memory.increment_bytes < 0 { "-" } else { "" };
                format!("{sign}{}", bytes(memory.increment_bytes.unsigned_abs()))
            });
            let _ = write!(html, "<td class=n>{memory}");
        }
        let text = source
            .and_then(|source| source.get((number - function.first_line) as usize))
            .map_or("", String::as_str);
        let _ = write!(html, "<td class=source>{}", source_line(text));
    }
    html.push_str("</table></div></details>\n");
}

/// Returns a source line as HTML. Bidirectional control characters are escaped, and a long line is
/// truncated.
fn source_line(line: &str) -> String {
    const LONGEST: usize = 400;
    let mut shown = String::new();
    for (count, character) in line.chars().enumerate() {
        if count == LONGEST {
            shown.push('…');
            break;
        }
        match character {
            '\t' => shown.push_str("    "),
            _ if character.is_control() || crate::label::is_mark(character) => {
                shown.extend(character.escape_default());
            }
            _ => shown.push(character),
        }
    }
    text::escape(&shown)
}
