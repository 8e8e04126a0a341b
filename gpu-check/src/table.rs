//! The final table.

use std::fmt::Write;

use crate::outcome::{Row, Verdict};

const TITLES: [&str; 4] = ["Check", "Measured", "Limit", "Result"];

/// Maximum line length of the measured values, in characters.
const WIDEST: usize = 72;

/// Returns all rows under a heading, and the number of failed rows.
pub fn paint(rows: &[Row]) -> String {
    let cells: Vec<[Vec<String>; 4]> = rows.iter().map(cells).collect();
    let mut widths = TITLES.map(str::len);
    for row in &cells {
        for (width, lines) in widths.iter_mut().zip(row) {
            let longest = lines.iter().map(|line| line.chars().count()).max().unwrap_or(0);
            *width = longest.max(*width);
        }
    }
    let mut text = String::new();
    paint_line(&mut text, &widths, TITLES);
    paint_line(&mut text, &widths, widths.map(|width| "-".repeat(width)).each_ref().map(|s| &**s));
    for row in &cells {
        let height = row.iter().map(Vec::len).max().unwrap_or(0);
        for line in 0..height {
            let parts = row.each_ref().map(|lines| lines.get(line).map_or("", String::as_str));
            paint_line(&mut text, &widths, parts);
        }
    }
    let failed = rows.iter().filter(|row| row.has_failed()).count();
    let not_run = rows.iter().filter(|row| matches!(row.verdict, Verdict::NotRun(_))).count();
    let good = rows.len() - failed - not_run;
    // Writing to a string cannot fail.
    let _ = writeln!(text, "\n{good} ok, {failed} failed, {not_run} not run");
    text
}

fn cells(row: &Row) -> [Vec<String>; 4] {
    let result = match &row.verdict {
        Verdict::Good => "ok".to_owned(),
        Verdict::Failed => "FAILED".to_owned(),
        Verdict::NotRun(why) => format!("not run: {why}"),
    };
    let texts = [row.name.as_str(), &row.measured, &row.limit, &result];
    texts.map(|text| broken(text, WIDEST))
}

fn paint_line(text: &mut String, widths: &[usize; 4], parts: [&str; 4]) {
    let mut line = String::new();
    for (part, width) in parts.iter().zip(widths) {
        // Writing to a string cannot fail.
        let _ = write!(line, "{part:<width$}  ");
    }
    text.push_str(line.trim_end());
    text.push('\n');
}

/// Wraps the text into lines of at most `widest` characters, unless a word is longer.
fn broken(text: &str, widest: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.last().map_or(0, |line| line.chars().count());
        if last > 0 && last + 1 + word.chars().count() > widest {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            if !line.is_empty() {
                line.push(' ');
            }
            line.push_str(word);
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let rows = [
            Row::decided("burn: kernels counted", "300 and 300", "equal", true),
            Row::decided("trace", "nothing", "some", false),
            Row::not_run("candle", "built without it"),
        ];
        let text = paint(&rows);
        let expected = "\
Check                  Measured     Limit  Result
---------------------  -----------  -----  -------------------------
burn: kernels counted  300 and 300  equal  ok
trace                  nothing      some   FAILED
candle                                     not run: built without it

1 ok, 1 failed, 1 not run
";
        assert_eq!(text, expected);
    }

    #[test]
    fn long_texts_are_broken_between_words() {
        assert_eq!(broken("one two three", 7), ["one two", "three"]);
        assert_eq!(broken("incomprehensibilities a", 5), ["incomprehensibilities", "a"]);
        assert_eq!(broken("", 5), [""]);
    }
}
