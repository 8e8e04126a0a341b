//! Order of actions by nesting.

use std::collections::HashMap;

use crate::simple::ActionStatistics;

/// Returns the rows with their depth in pre-order. Rows with the same parent keep their order. A
/// row has depth 0 if its parent has no row.
pub(super) fn nested<'rows>(
    rows: &[&'rows ActionStatistics],
) -> Vec<(usize, &'rows ActionStatistics)> {
    let places: HashMap<_, usize> = rows
        .iter()
        .enumerate()
        .map(|(place, row)| ((row.sub_stage, row.action.as_str()), place))
        .collect();
    let mut inside: Vec<Vec<usize>> = vec![Vec::new(); rows.len()];
    let mut tops = Vec::new();
    for (place, row) in rows.iter().enumerate() {
        let around = row.inside.as_deref().and_then(|around| places.get(&(row.sub_stage, around)));
        match around.filter(|around| **around != place) {
            Some(around) => inside[*around].push(place),
            None => tops.push(place),
        }
    }
    let mut is_placed = vec![false; rows.len()];
    let mut ordered = Vec::with_capacity(rows.len());
    // With several threads, two actions may have called each other. Such rows are not below a
    // top-level row, so they are added here.
    for top in tops.into_iter().chain(0..rows.len()) {
        let mut next = vec![(0, top)];
        while let Some((depth, place)) = next.pop() {
            if std::mem::replace(&mut is_placed[place], true) {
                continue;
            }
            ordered.push((depth, rows[place]));
            next.extend(inside[place].iter().rev().map(|inner| (depth + 1, *inner)));
        }
    }
    ordered
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn row(action: &str, inside: Option<&str>) -> ActionStatistics {
        let row = crate::findings::samples::row(action, 1, 1.0);
        ActionStatistics { inside: inside.map(str::to_owned), ..row }
    }

    fn order(rows: &[ActionStatistics]) -> Vec<(usize, &str)> {
        let rows: Vec<_> = rows.iter().collect();
        nested(&rows).into_iter().map(|(depth, row)| (depth, row.action.as_str())).collect()
    }

    #[test]
    fn inner_rows_follow_outer_rows() {
        let rows = [
            row("epoch", None),
            row("step", Some("batch")),
            row("batch", Some("epoch")),
            row("save", Some("epoch")),
            row("load", Some("not in the report")),
        ];
        let expected = [(0, "epoch"), (1, "batch"), (2, "step"), (1, "save"), (0, "load")];
        assert_eq!(order(&rows), expected);
    }

    #[test]
    fn every_row_is_there_once_whatever_is_inside_of_what() {
        let rows = [
            row("a", Some("b")),
            row("b", Some("a")),
            row("c", Some("a")),
            row("itself", Some("itself")),
        ];
        assert_eq!(order(&rows), [(0, "itself"), (0, "a"), (1, "b"), (1, "c")]);
        let validation = |action: &str, inside: Option<&str>| ActionStatistics {
            sub_stage: Some(mlprof_events::Stage::Validate),
            ..row(action, inside)
        };
        // Rows of nested stages are separate from rows of the reported stage.
        let rows = [row("step", None), validation("loss", Some("step")), validation("step", None)];
        assert_eq!(order(&rows), [(0, "step"), (0, "step"), (1, "loss")]);
    }

    #[test]
    fn a_long_chain_is_no_recursion() {
        let rows: Vec<_> = (0..50_000)
            .map(|n| row(&n.to_string(), (n > 0).then(|| (n - 1).to_string()).as_deref()))
            .collect();
        assert_eq!(order(&rows).last(), Some(&(49_999, "49999")));
    }
}
