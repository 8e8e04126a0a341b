//! HTML page of a comparison.

use std::fmt::Write;

use super::limits::Limits;
use super::{SCRIPT, text, within_size, write_head};
use crate::comparison::{ComparedReports, Comparison, LEAST_SHARE};
use crate::number::grouped;

/// Renders a [`Comparison`] as one HTML file, with the rows that got worse first. It has at most
/// [`LARGEST`](super::LARGEST) bytes. If it would be larger, the rows with the smallest changes are
/// left out and counted in the page.
pub fn comparison(comparison: &Comparison) -> String {
    within_size(|limits| with_limits(comparison, limits))
}

fn with_limits(comparison: &Comparison, limits: Limits) -> String {
    let mut html = String::new();
    let titles: Vec<_> =
        comparison.parts.iter().map(|part| text::sentence(&part.title())).collect();
    let links = titles.iter().enumerate();
    let links = links.map(|(index, title)| format!("<a href=\"#r{index}\">{title}</a>"));
    write_head(&mut html, "before and after", &links.collect::<String>());
    write_summary(&mut html, comparison, limits);
    let mut left_out = 0;
    for (index, part) in comparison.parts.iter().enumerate() {
        // Writing into a string cannot fail, so these results are ignored.
        let title = &titles[index];
        let _ = writeln!(html, "<section class=report id=r{index}><h2>{title}</h2>");
        write_part(&mut html, part, limits, &mut left_out);
        html.push_str("</section>\n");
    }
    if left_out > 0 {
        let _ = writeln!(
            html,
            "<p class=note>To keep the page small, {} rows with smaller changes are left out.</p>",
            grouped(left_out as u64)
        );
    }
    // The script reads the reports of a page. A comparison has none, so the list is empty.
    let _ = write!(
        html,
        "</main>\n<script type=\"application/json\" id=reports>[]</script>\n<script>{SCRIPT}</script>\n"
    );
    html
}

/// Writes a list of all regressions, and the notes that are needed to interpret the numbers.
fn write_summary(html: &mut String, comparison: &Comparison, limits: Limits) {
    const SHOWN: usize = 10;
    html.push_str("<section id=summary><h2>Regressions</h2>");
    let worse = comparison.regressions(0.0);
    if worse.is_empty() {
        let _ = write!(
            html,
            "<p>No change for the worse reaches {:.0} % of the run and exceeds the usual \
             variation.</p>",
            100.0 * LEAST_SHARE
        );
    }
    html.push_str("<ul>");
    for regression in worse.iter().take(SHOWN) {
        let _ = write!(html, "<li>{}", text::sentence(&regression.to_string()));
    }
    html.push_str("</ul>");
    if let Some(more) = worse.len().checked_sub(SHOWN).filter(|more| *more > 0) {
        let _ = write!(html, "<p>And {} more rows.</p>", grouped(more as u64));
    }
    for note in comparison.notes.iter().take(limits.rows) {
        let _ = write!(html, "<p class=note>{}</p>", text::sentence(note));
    }
    html.push_str("</section>\n");
}

fn write_part(html: &mut String, part: &ComparedReports, limits: Limits, left_out: &mut usize) {
    let (before, after) = (part.before.text(), part.after.text());
    let _ = write!(
        html,
        "<dl class=facts><div><dt>Before<dd>{before}</div><div><dt>After<dd>{after}</div></dl>"
    );
    for note in part.notes.iter().take(limits.rows) {
        let _ = write!(html, "<p class=note>{}</p>", text::sentence(note));
    }
    for table in &part.tables {
        let _ = writeln!(html, "<h3>{}</h3>", table.subject.title());
        table.described(&|_| true).write(html, limits);
        *left_out += table.rows.len().saturating_sub(limits.rows);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Report;
    use crate::comparison::compare;
    use crate::findings::samples::{row, steps};
    use crate::page::LARGEST;

    fn side(rows: u64, name: &str, seconds: f64) -> Report {
        let mut report = steps(100, 0.01);
        let others = (0..rows).map(|index| row(&format!("{name} {index}"), 100, seconds));
        report.actions.extend(others);
        Report::Simple(report)
    }

    #[test]
    fn a_page_stays_small_and_says_what_it_left_out() {
        let name = format!("</script>{}", "x".repeat(500));
        let sides = [side(20_000, &name, 0.1), side(20_000, &name, 0.2)];
        let compared = compare(&sides[..1], &sides[1..]).expect("of one program");
        let html = comparison(&compared);
        assert!(html.len() <= LARGEST, "{}", html.len());
        assert!(html.contains("rows with smaller changes are left out"));
        assert_eq!(html.matches("</script>").count(), 2, "those of the page");
    }

    #[test]
    fn rows_without_regression_are_also_listed() {
        let compared = compare(&[side(0, "", 0.1)], &[side(0, "", 0.1)]).expect("of one program");
        let html = comparison(&compared);
        assert!(html.contains("No change for the worse reaches 1 % of the run"), "{html}");
        assert!(html.contains("<p class=note>One run of a side"), "{html}");
    }
}
