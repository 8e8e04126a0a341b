//! Tables as Markdown.

use super::{Row, Table, Unit};

impl Table {
    /// Returns at most `limit` rows as Markdown, below the caption. Returns an empty string without
    /// rows. The columns are those of the text format, in the order of their definition.
    pub fn markdown(&self, limit: usize) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let columns: Vec<usize> = self.shown_in_text().collect();
        let line = |write: &dyn Fn(usize) -> String| {
            let cells: Vec<String> = columns.iter().map(|column| write(*column)).collect();
            format!("| {} |\n", cells.join(" | "))
        };
        let mut text = format!("{}\n\n", escaped(&self.caption));
        text += &line(&|column| escaped(self.columns[column].title));
        text += &line(&|column| match self.columns[column].unit {
            Unit::Text => "---".to_owned(),
            _ => "---:".to_owned(),
        });
        for row in self.rows.iter().take(limit) {
            text += &line(&|column| self.markdown_cell(row, column));
        }
        text
    }

    fn markdown_cell(&self, row: &Row, column: usize) -> String {
        escaped(self.text_cell(row, column, LONGEST).trim())
    }
}

/// Maximum length of a fitted name, in characters.
const LONGEST: usize = 160;

/// Escapes all characters that could begin markup.
fn escaped(text: &str) -> String {
    let mut escaped = String::new();
    for character in text.chars() {
        if "\\`*_[]<>|#&~".contains(character) {
            escaped.push('\\');
        }
        escaped.push(character);
    }
    escaped
}
