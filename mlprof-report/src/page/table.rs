//! HTML tables that are complete without scripts and contain the attributes that the script needs
//! for sorting and grouping.

use std::fmt::Write;

use super::limits::Limits;
use super::text;
use crate::table::{Cell, Column, LEAST_SHARE, Merge, Row, Table};

/// Number of colours of bars.
pub const COLOURS: usize = 7;
/// Width of the widest bar in a column, in pixels.
const BAR: f64 = 160.0;

impl Table {
    /// Writes the table with at most `limits.rows` rows. Writes no HTML without rows. Writing into
    /// a string cannot fail, so the results are ignored here and below.
    pub(super) fn write(&self, html: &mut String, limits: Limits) {
        self.write_folding(html, limits, &[]);
    }

    /// Writes the table so that the script folds small rows into one row. `wholes` contains columns
    /// and their whole amounts. A row is small if it has less than 0.1 % of each.
    pub(super) fn write_folding(
        &self,
        html: &mut String,
        limits: Limits,
        wholes: &[(&'static str, f64)],
    ) {
        if self.rows.is_empty() {
            return;
        }
        if let Some(summary) = &self.folded {
            let _ = writeln!(html, "<details><summary>{}</summary>", text::sentence(summary));
        }
        write_legend(html, &self.legend, self.colours());
        let rows = self.kept(limits.rows);
        let shown = self.shown();
        html.push_str("<div class=scroll><table");
        let _ = match (self.is_tree, self.is_nested, self.group) {
            (true, _, _) => write!(html, " class=tree"),
            (_, true, _) => write!(html, " class=\"sortable nested\""),
            (_, _, Some(report)) => {
                write!(html, " class=\"sortable groupable\" data-report={report}")
            }
            _ => write!(html, " class=sortable"),
        };
        let _ = write!(html, "><caption>{}</caption><thead><tr>", text::escape(&self.caption));
        for column in &shown {
            let title = self.columns[*column].title;
            let whole = wholes.iter().find(|(of, _)| *of == title).map(|(_, whole)| *whole);
            self.write_title(html, *column, &shown, whole);
        }
        html.push_str("<tbody>");
        let scale = |column: &usize| match self.columns[*column].has_bar {
            true => rows.iter().filter_map(|row| row.cells[*column].number()).fold(0.0, f64::max),
            false => self.widest(*column),
        };
        let scales: Vec<f64> = shown.iter().map(scale).collect();
        for row in rows {
            let _ = match &row.anchor {
                Some(anchor) => write!(html, "<tr id={anchor}>"),
                None => write!(html, "<tr>"),
            };
            for (column, scale) in shown.iter().zip(&scales) {
                match self.is_hidden(*column) {
                    true => html.push_str("<td hidden>"),
                    false => self.write_cell(html, row, *column, *scale, limits),
                }
            }
        }
        html.push_str("</table></div>\n");
        if self.folded.is_some() {
            html.push_str("</details>\n");
        }
    }

    /// Returns the columns with content, and the columns that the script may fill.
    fn shown(&self) -> Vec<usize> {
        let is_shown = |place: &usize| {
            let is_empty = || !self.hidden.contains(place) && self.is_blank(*place);
            self.columns[*place].is_on_page() && (*place == 0 || !is_empty())
        };
        (0..self.columns.len()).filter(is_shown).collect()
    }

    fn is_hidden(&self, column: usize) -> bool {
        self.hidden.contains(&column) && self.is_blank(column)
    }

    fn place_of(&self, title: &str) -> Option<usize> {
        self.columns.iter().position(|column| column.title == title && column.is_on_page())
    }

    fn write_title(&self, html: &mut String, place: usize, shown: &[usize], whole: Option<f64>) {
        let Column { title, about, unit, merge, .. } = self.columns[place];
        let about = text::escape(about);
        let _ = write!(html, "<th scope=col data-unit={} title=\"{about}\"", unit.as_str());
        let _ = match merge {
            Merge::Nothing => Ok(()),
            Merge::Key => write!(html, " data-merge=key"),
            Merge::Sum => write!(html, " data-merge=sum"),
            Merge::Min => write!(html, " data-merge=min"),
            Merge::Max => write!(html, " data-merge=max"),
            Merge::Mean(calls) => {
                let calls = self.place_of(calls);
                match shown.iter().position(|place| Some(*place) == calls) {
                    Some(calls) => write!(html, " data-merge=mean data-of={calls}"),
                    None => Ok(()),
                }
            }
        };
        if self.columns[place].has_bar {
            html.push_str(" data-bar");
        }
        if let Some(whole) = whole.filter(|whole| *whole > 0.0) {
            let _ = write!(html, " data-small={}", plain(LEAST_SHARE * whole));
        }
        if self.is_hidden(place) {
            html.push_str(" hidden");
        }
        if self.sorted_by == Some(title) {
            html.push_str(" aria-sort=descending");
        }
        let _ = write!(html, ">{title}");
    }

    /// Writes a cell. `scale` is the largest number of the column.
    fn write_cell(&self, html: &mut String, row: &Row, place: usize, scale: f64, limits: Limits) {
        let column = &self.columns[place];
        let words = match &row.cells[place] {
            Cell::Text(words) => text::name(words, limits.name),
            Cell::Fitted(parts, fit) => text::escape(&fit(parts, limits.name)),
            Cell::Strong(words) => format!("<b>{}</b>", text::name(words, limits.name)),
            Cell::Markup(html) => html.clone(),
            Cell::Bar(parts) => bar_of(parts, scale),
            Cell::Number(None) => {
                html.push_str("<td class=n>–");
                return;
            }
            Cell::Number(Some(number)) | Cell::Part(number, _) => {
                debug_assert!(column.unit.is_number());
                let bar = if column.has_bar && scale > 0.0 { bar(*number / scale) } else { 0 };
                let _ = match bar {
                    0 => write!(html, "<td class=n"),
                    _ => write!(html, "<td class=\"n b{bar}\""),
                };
                let (value, text) = (plain(*number), column.unit.write(*number));
                // The script reads the cell's text if it is exact. Zeros are frequent, so they have
                // no attribute.
                if !self.has_numbers_in_report && *number != 0.0 && value != text {
                    let _ = write!(html, " data-v={value}");
                }
                let _ = write!(html, ">{text}");
                return;
            }
        };
        let _ = match place {
            0 if self.is_tree || self.is_nested => {
                write!(html, "<th scope=row class=d{}>{words}", row.depth.min(DEEPEST))
            }
            0 => write!(html, "<th scope=row>{words}"),
            _ => write!(html, "<td>{words}"),
        };
    }

    /// Returns the rows within the limit, in their order.
    fn kept(&self, most: usize) -> Vec<&Row> {
        let column = self.kept_by.and_then(|title| self.place_of(title));
        let Some(column) = column.filter(|_| self.rows.len() > most) else {
            return self.rows.iter().take(most).collect();
        };
        let number =
            |row: usize| self.rows[row].cells[column].number().unwrap_or(f64::NEG_INFINITY);
        let mut rows: Vec<usize> = (0..self.rows.len()).collect();
        rows.sort_by(|one, other| number(*other).total_cmp(&number(*one)));
        rows.truncate(most);
        rows.sort_unstable();
        rows.into_iter().map(|row| &self.rows[row]).collect()
    }

    /// Returns the sum of the longest bar in a column.
    fn widest(&self, column: usize) -> f64 {
        let sum = |row: &Row| match &row.cells[column] {
            Cell::Bar(parts) => parts.iter().map(|part| part.1).sum(),
            _ => 0.0,
        };
        self.rows.iter().map(sum).fold(0.0, f64::max)
    }

    /// Returns the colours that the bars use.
    fn colours(&self) -> [bool; COLOURS] {
        let mut colours = [false; COLOURS];
        for cell in self.rows.iter().flat_map(|row| &row.cells) {
            let Cell::Bar(parts) = cell else { continue };
            for (colour, _) in parts.iter().filter(|(_, amount)| *amount > 0.0) {
                colours[*colour] = true;
            }
        }
        colours
    }
}

/// Writes the legend of the colours in use.
pub(super) fn write_legend(html: &mut String, legend: &[&str], colours: [bool; COLOURS]) {
    if !colours.contains(&true) {
        return;
    }
    html.push_str("<p>");
    for (colour, name) in legend.iter().enumerate().take(COLOURS) {
        if colours[colour] {
            let _ = write!(html, "<span class=\"key p{colour}\">{}</span>", text::escape(name));
        }
    }
    html.push_str("</p>\n");
}

/// Returns a bar of several parts as SVG. A bar with the sum `widest` has the full width.
fn bar_of(parts: &[(usize, f64)], widest: f64) -> String {
    let scale = BAR / widest.max(f64::MIN_POSITIVE);
    let mut svg = format!("<svg class=parts width={BAR:.0} height=11 aria-hidden=true>");
    let mut left = 0.0;
    for (colour, amount) in parts {
        let width = amount * scale;
        if width >= 0.05 {
            let _ =
                write!(svg, "<rect class=p{colour} x={left:.1} y=1 width={width:.1} height=9 />");
        }
        left += width;
    }
    svg + "</svg>"
}

/// Returns a bar of parts with CSS classes, which together have the full width.
pub(super) fn parts_bar(parts: &[(&str, &str, f64)]) -> String {
    let all: f64 = parts.iter().map(|part| part.2).sum();
    let mut svg =
        "<svg class=split viewBox=\"0 0 100 4\" preserveAspectRatio=none aria-hidden=true>"
            .to_owned();
    let mut left = 0.0;
    for (_, class, amount) in parts.iter().filter(|part| part.2 > 0.0) {
        let width = 100.0 * amount / all;
        let _ = write!(svg, "<rect class={class} x={left:.1} width={width:.1} height=4 />");
        left += width;
    }
    svg + "</svg>"
}

/// Number of nesting levels with a class in the style sheet.
const DEEPEST: usize = 24;

/// Returns the number of a bar class. The style sheet has one class for every two percent.
fn bar(share: f64) -> u32 {
    (share.clamp(0.0, 1.0) * 50.0).round() as u32
}

/// Formats a number with six digits, which is enough for sorting and summing.
fn plain(number: f64) -> String {
    if number == number.trunc() && number.abs() < 1e15 {
        return format!("{number:.0}");
    }
    crate::number::general(number, 6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::table::{count, seconds, table, words};

    #[test]
    fn numbers_have_six_digits() {
        assert_eq!(plain(1.0 / 3.0), "0.333333");
        assert_eq!(plain(18_446.0), "18446");
    }

    #[test]
    fn columns_without_anything_are_left_out() {
        let rows = [("<a>", 2_u64, 1.0), ("b", 1, 0.5)];
        let table = table!("Actions", rows, |(name, calls, total)| {
            words("Name", "").key() => name,
            count("Calls", "").sum() => calls,
            seconds("Waiting", "") => None,
            seconds("Total", "").sum().bar() => total,
            seconds("Mean", "").merge(Merge::Mean("Calls")) => total / calls as f64,
            seconds("Text only", "").in_text() => total,
        });
        let mut html = String::new();
        table.write(&mut html, Limits::FIRST);
        assert!(!html.contains("Waiting") && !html.contains("Text only"), "{html}");
        assert!(html.contains("data-merge=mean data-of=1"), "columns that are there: {html}");
        assert!(html.contains("<th scope=row>&lt;a&gt;<td class=n>2<td"), "{html}");
        assert!(html.contains("<td class=\"n b25\" data-v=0.5>500 ms"), "{html}");
    }
}
