//! Tables as JSON.

use serde_json::{Map, Value, json};

use super::{Cell, Column, Table, Unit};

impl Table {
    /// Returns the table as JSON with three fields: `caption`, `columns` and `rows`. Each of
    /// `columns` has `title`, `unit` and `about`. Each of `rows` is an object of its cells by
    /// title. Numbers are exact.
    pub fn json(&self) -> Value {
        let is_shown = |column: &Column| column.is_on_page() && column.unit != Unit::Markup;
        let columns: Vec<_> = self.columns.iter().enumerate().filter(|it| is_shown(it.1)).collect();
        let described = columns.iter().map(|(_, column)| {
            json!({ "title": column.title, "unit": column.unit.as_str(), "about": column.about })
        });
        let rows = self.rows.iter().map(|row| {
            let cell = |(place, column): &(usize, &Column)| {
                let value = match &row.cells[*place] {
                    Cell::Text(text) | Cell::Strong(text) => text.as_str().into(),
                    Cell::Fitted(parts, fit) => fit(parts, usize::MAX).into(),
                    cell => cell.number().into(),
                };
                (column.title.to_owned(), value)
            };
            Value::Object(columns.iter().map(cell).collect::<Map<_, _>>())
        });
        json!({
            "caption": self.caption,
            "columns": described.collect::<Vec<_>>(),
            "rows": rows.collect::<Vec<_>>(),
        })
    }
}
