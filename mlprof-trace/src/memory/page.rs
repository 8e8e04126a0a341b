//! Memory timeline as an HTML page, with a picture of each device and a table of the memory at its
//! peak.

use std::fmt::Write;

use super::picture::{bytes, svg, time_unit};
use super::{DeviceTimeline, MemoryTimeline};

/// Maximum number of rows in a table. The others are summed in one row.
const MOST_ROWS: usize = 40;

const STYLE: &str = ":root{color-scheme:light dark}\
    body{margin:2em auto;max-width:1100px;padding:0 1em;font:14px system-ui,sans-serif;\
    background:Canvas;color:CanvasText}\
    svg{width:100%;height:auto}table{border-collapse:collapse}\
    th,td{padding:.2em .8em;text-align:left;border-bottom:1px solid GrayText}\
    td.number,th.number{text-align:right;font-variant-numeric:tabular-nums}\
    td.name{overflow-wrap:anywhere}.note{color:GrayText}";

/// Returns a page of all devices, each with a table of the memory at its peak.
pub(super) fn html(timeline: &MemoryTimeline) -> String {
    let title = match timeline.stage {
        Some(stage) => format!("Memory during {stage}, rank {}", timeline.rank),
        None => format!("Memory, rank {}", timeline.rank),
    };
    let mut html = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>{title}</title>\
         <style>{STYLE}</style></head><body><h1>{title}</h1>\n"
    );
    if timeline.devices.is_empty() {
        html.push_str("<p>No allocation was recorded.</p>");
    }
    if timeline.dropped > 0 {
        let dropped = timeline.dropped;
        let _ = write!(
            html,
            "<p>{dropped} allocations and frees are missing, so the levels are wrong.</p>"
        );
    }
    for device in &timeline.devices {
        html.push_str(&svg(timeline, device));
        table(&mut html, timeline, device);
    }
    html.push_str(
        "<p class=\"note\">Hooks label the category of memory; without a label, the category is an estimate \
         from the allocation time and lifetime.</p></body></html>\n",
    );
    html
}

fn table(html: &mut String, timeline: &MemoryTimeline, device: &DeviceTimeline) {
    let (unit, per_us) = time_unit(timeline.duration_us);
    let peak = &device.peak;
    let _ = writeln!(
        html,
        "<h2>Alive at the peak, {} after {:.3} {unit}</h2><table><tr><th class=\"number\">memory</th>\
         <th class=\"number\">share</th><th class=\"number\">allocations</th><th>for</th>\
         <th>allocated by</th></tr>",
        bytes(peak.bytes),
        peak.time_us * per_us,
    );
    for row in peak.alive.iter().take(MOST_ROWS) {
        let by = match (&row.op, &row.inside) {
            _ if row.is_from_before => "before the recording".to_owned(),
            (Some(op), Some(inside)) => format!("{op} in {inside}"),
            (Some(name), None) | (None, Some(name)) => name.clone(),
            (None, None) => "unknown".to_owned(),
        };
        let count = if row.allocations > 0 { row.allocations.to_string() } else { String::new() };
        table_row(html, row.bytes, peak.bytes, &count, row.category.in_words(), &by);
    }
    let rest = peak.alive.iter().skip(MOST_ROWS);
    let (count, sum) =
        rest.fold((0, 0), |(count, sum), row| (count + row.allocations, sum + row.bytes));
    if sum > 0 {
        table_row(html, sum, peak.bytes, &count.to_string(), "", "others");
    }
    html.push_str("</table>\n");
}

fn table_row(html: &mut String, size: u64, all: u64, count: &str, category: &str, by: &str) {
    let share = size as f64 / all.max(1) as f64 * 100.0;
    let _ = writeln!(
        html,
        "<tr><td class=\"number\">{}</td><td class=\"number\">{share:.1} %</td>\
         <td class=\"number\">{count}</td><td>{category}</td><td class=\"name\">{}</td></tr>",
        bytes(size),
        escape(by),
    );
}

/// Escapes text between tags, and replaces characters that XML forbids.
fn escape(text: &str) -> String {
    let allowed = text.chars().map(|character| match character {
        character if character.is_control() => ' ',
        '\u{fffe}' | '\u{ffff}' => '\u{fffd}',
        character => character,
    });
    mlprof_report::internals::escape(&allowed.collect::<String>())
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn names_cannot_break_the_page() {
        assert_eq!(escape("a<b>&\"\u{1}\u{ffff}"), "a&lt;b&gt;&amp;&quot; \u{fffd}");
    }
}
