//! Sections that other crates add to a page, such as the results of `mlprof analyze` for traces.
//! Their layout and size limits are defined here.

mod values;

use std::fmt::Write;

use serde_json::{Value, json};

pub use self::values::{Content, Section, Stretch, Strip};
use super::limits::Limits;
pub use super::table::COLOURS;
use super::table::write_legend;
use super::{Part as Place, text};
use crate::Report;
use crate::findings::Rules;
use crate::number::{duration, grouped};

/// Value of the field `profiler` that marks a section in the page's JSON.
pub(super) const PROFILER: &str = "trace";

/// Size of strips, in pixels.
const STRIP: f64 = 1100.0;
const STRIP_HEIGHT: f64 = 36.0;

/// Renders a page with reports and then sections. It has at most [`LARGEST`](super::LARGEST) bytes,
/// except that the number of sections and the notes have no limit. The page counts the rows that
/// were left out.
pub fn html(reports: &[Report], sections: &[Section]) -> String {
    super::with_sections(reports, sections, &Rules::new())
}

/// Writes the number of rows that were left out.
pub(super) fn write_left_out(html: &mut String, sections: &[Section], limits: Limits) {
    let tables = sections.iter().flat_map(|section| &section.content);
    let left_out = tables.map(|content| match content {
        Content::Table(table) => table.rows.len().saturating_sub(limits.rows),
        _ => 0,
    });
    let left_out: usize = left_out.sum();
    if left_out > 0 {
        // Writing into a string cannot fail, so these results are ignored.
        let _ = writeln!(
            html,
            "<p class=note>To keep the page small, {} rows with the smallest values are left out. \
             <code>--json</code> instead of <code>--html</code> has all of them.</p>",
            grouped(left_out as u64)
        );
    }
}

/// Writes a section with the index `place.index` among the page's reports.
pub(super) fn write(html: &mut String, section: &Section, place: &Place) {
    let title = text::sentence(&section.title);
    let _ = writeln!(html, "<section class=report id=r{}><h2>{title}</h2>", place.index);
    if !section.facts.is_empty() {
        html.push_str("<dl class=facts>");
        for (what, value) in &section.facts {
            let _ = write!(html, "<div><dt>{what}<dd>{}</div>", text::name(value, 300));
        }
        html.push_str("</dl>\n");
    }
    for note in section.notes.iter().take(place.limits.rows) {
        let _ = writeln!(html, "<p class=note>{}</p>", text::sentence(note));
    }
    html.push_str("<div class=blocks><div class=block>");
    let mut strips = 0;
    for content in &section.content {
        match content {
            Content::Heading(anchor, title) => {
                place.heading(html, &text::escape(anchor), &text::sentence(title));
            }
            Content::Paragraph(words) | Content::Explanation(words) => {
                let _ = writeln!(html, "<p>{}</p>", text::sentence(words));
            }
            Content::Table(table) => table.write(html, place.limits),
            Content::Strip(strip) => {
                write_strip(html, strip, place, strips);
                strips += 1;
            }
        }
    }
    html.push_str("</div></div></section>\n");
}

/// Returns sections as text: tables of at most `limit` rows with a heading above each, and
/// paragraphs.
pub fn text(content: &[Content], limit: usize) -> String {
    let mut text = String::new();
    let mut heading = None;
    for part in content {
        match part {
            Content::Heading(_, title) => heading = Some(title.as_str()),
            Content::Paragraph(words) => {
                if let Some(heading) = heading.take() {
                    let _ = writeln!(text, "\n{heading}");
                }
                let _ = writeln!(text, "{}", crate::label::one_line(words));
            }
            Content::Table(table) if !table.is_empty() && table.folded.is_none() => {
                let heading = table.heading(heading.take());
                let _ = write!(text, "\n{heading}\n{}", table.text(limit));
            }
            _ => {}
        }
    }
    text
}

/// Returns the JSON value of a section for the page's script: its strips and its findings.
pub(super) fn value(section: &Section, limits: Limits) -> Value {
    let strips = section.content.iter().filter_map(|content| match content {
        Content::Strip(strip) => Some(strip.shortened(most_stretches(limits))),
        _ => None,
    });
    let strips = strips.map(|strip| {
        let seconds: Vec<f64> = strip.stretches.iter().map(|stretch| stretch.seconds).collect();
        let what = strip.stretches.into_iter().map(|stretch| shortened(&stretch.what, limits.name));
        json!({ "seconds": seconds, "what": what.collect::<Vec<_>>() })
    });
    json!({
        "profiler": PROFILER,
        "strips": strips.collect::<Vec<_>>(),
        "findings": section.findings,
    })
}

/// Shortens a name to at most `longest` characters. The script inserts it into the page as text.
fn shortened(name: &str, longest: usize) -> String {
    let name = crate::label::shown(name);
    match name.char_indices().nth(longest) {
        Some((end, _)) => format!("{}…", &name[..end]),
        None => name,
    }
}

/// Returns the maximum number of stretches, so that each is at least two pixels wide. It is twice
/// the number of bars in the step chart.
fn most_stretches(limits: Limits) -> usize {
    2 * limits.steps
}

fn write_strip(html: &mut String, strip: &Strip, place: &Place, number: usize) {
    let shown = strip.shortened(most_stretches(place.limits));
    let all = shown.seconds();
    if all <= 0.0 {
        return;
    }
    let _ = write!(
        html,
        "<figure class=strip data-report={} data-stretches={number}><figcaption>",
        place.index
    );
    let mut colours = [false; COLOURS];
    for stretch in &shown.stretches {
        colours[stretch.colour] = true;
    }
    write_legend(html, &shown.legend, colours);
    let _ = write!(
        html,
        "</figcaption><div class=scroll><svg width={STRIP:.0} height={STRIP_HEIGHT:.0} viewBox=\"0 0 {STRIP:.0} \
         {STRIP_HEIGHT:.0}\" role=img aria-label=\"{}, {}\"><g class=parts>",
        text::escape(&crate::label::one_line(&shown.about)),
        text::escape(&duration(all))
    );
    let mut left = 0.0;
    for stretch in &shown.stretches {
        let width = stretch.seconds / all * STRIP;
        let _ = write!(
            html,
            "<rect class=p{} x={left:.2} width={width:.2} height={STRIP_HEIGHT:.0} />",
            stretch.colour
        );
        left += width;
    }
    html.push_str("</g></svg></div></figure>\n");
}

impl Strip {
    fn seconds(&self) -> f64 {
        self.stretches.iter().map(|stretch| stretch.seconds).sum()
    }

    /// Returns the strip with at most about `most` stretches. Short neighbours are merged into one
    /// stretch with the colour of the longest.
    fn shortened(&self, most: usize) -> Self {
        if self.stretches.len() <= most {
            return self.clone();
        }
        let least = 2.0 * self.seconds() / most as f64;
        let mut stretches: Vec<Stretch> = Vec::new();
        let mut rest = self.stretches.as_slice();
        while !rest.is_empty() {
            let mut seconds = 0.0;
            let is_short = |stretch: &&Stretch| {
                let before = seconds;
                seconds += stretch.seconds;
                before < least
            };
            let count = rest.iter().take_while(is_short).count().max(1);
            let (together, others) = rest.split_at(count);
            rest = others;
            stretches.extend(one_of(together));
        }
        Self { stretches, ..self.clone() }
    }
}

/// Merges stretches into one.
fn one_of(together: &[Stretch]) -> Option<Stretch> {
    let longest =
        together.iter().max_by(|one, other| one.seconds.total_cmp(&other.seconds))?.clone();
    let what = match together.len() {
        1 => longest.what,
        count => format!(
            "{} stretches, the longest {}: {}",
            grouped(count as u64),
            duration(longest.seconds),
            longest.what
        ),
    };
    let seconds = together.iter().map(|stretch| stretch.seconds).sum();
    Some(Stretch { colour: longest.colour, seconds, what })
}
