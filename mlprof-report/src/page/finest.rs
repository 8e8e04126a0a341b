//! Rows of ops in the finest grouping, if the table uses a coarser one.

use std::collections::HashMap;

use mlprof_events::Phase;
use serde::Serialize;

use super::limits::Limits;
use super::tensor::shown_rows;
use crate::TensorReport;
use crate::tensor::{FinestRow, KeyAverage};

/// Row of the finest grouping that equals a row of the table, except for the fields here.
#[derive(Debug, PartialEq, Serialize)]
pub(super) struct SameRow {
    /// Index of the table row in its initial order.
    row: usize,
    #[serde(skip_serializing_if = "String::is_empty")]
    shapes: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    module: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    phase: Option<Phase>,
}

/// Removes rows from the page's `finest_rows` that equal a row of its table, and returns references
/// to these table rows. Most rows are equal, so this avoids storing their numbers twice.
pub(super) fn take_same_rows(
    report: &TensorReport,
    finest: &mut Vec<FinestRow>,
    limits: Limits,
) -> Vec<SameRow> {
    let rows = shown_rows(report, limits.rows);
    let mut of_name: HashMap<&str, Vec<(usize, FinestRow)>> = HashMap::new();
    for (index, row) in rows.iter().enumerate() {
        of_name.entry(&row.name).or_default().push((index, FinestRow::from(*row)));
    }
    let mut same = Vec::new();
    finest.retain(|row| {
        let found = of_name.get(row.name.as_str()).and_then(|known| {
            known.iter().find(|(index, known)| is_told_apart(row, known, rows[*index]))
        });
        same.extend(found.map(|(index, _)| SameRow {
            row: *index,
            // The shapes are omitted if the table already groups by them.
            shapes: match rows[*index].input_shapes {
                Some(_) => String::new(),
                None => row.shapes.clone(),
            },
            module: row.module.clone(),
            phase: row.phase,
        }));
        found.is_none()
    });
    same
}

/// Returns `true` if a row equals the table row `known`, with all of its calls and numbers. Fields
/// that the table does not group by are ignored.
fn is_told_apart(row: &FinestRow, known: &FinestRow, of_table: &KeyAverage) -> bool {
    let told = FinestRow {
        shapes: match of_table.input_shapes {
            Some(_) => known.shapes.clone(),
            None => row.shapes.clone(),
        },
        module: match of_table.module {
            Some(_) => known.module.clone(),
            None => row.module.clone(),
        },
        phase: of_table.phase.or(row.phase),
        ..known.clone()
    };
    told == *row
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::findings::samples::{op, recorded};
    use crate::tensor::{KeyAverages, finest_rows};

    #[test]
    fn only_rows_that_are_parts_of_others_are_kept() {
        let mut report = recorded(vec![op("aten::mm", 4, 0.5), op("aten::exp", 2, 0.75)]);
        let part = |name: &str, calls, seconds, module: &str| KeyAverage {
            module: Some(module.to_owned()),
            phase: Some(Phase::Forward),
            ..op(name, calls, seconds)
        };
        let rows = vec![
            part("aten::mm", 3, 0.25, "a: Linear"),
            part("aten::mm", 1, 0.25, "b: Linear"),
            part("aten::exp", 2, 0.75, "b: Linear"),
        ];
        report.finest_rows = finest_rows(&KeyAverages { rows, ..KeyAverages::default() });
        let mut finest = report.finest_rows.clone();
        let same = take_same_rows(&report, &mut finest, Limits::FIRST);
        // The table is ordered by time, longest first.
        let (module, phase) = ("b: Linear".to_owned(), Some(Phase::Forward));
        assert_eq!(same, [SameRow { row: 0, shapes: String::new(), module, phase }]);
        assert_eq!(finest, report.finest_rows[..2]);
    }
}
