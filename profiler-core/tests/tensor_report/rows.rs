//! Rows to paint and to look up.

use profiler_core::ActionKind;
use profiler_core::report::tensor::{KeyAverage, KeyAverages};

/// A row without any numbers.
pub fn row(name: &str) -> KeyAverage {
    KeyAverage {
        name: name.to_owned(),
        kind: ActionKind::Op,
        ..KeyAverages::default().total_average()
    }
}

/// The only row of this name.
pub fn find<'rows>(averages: &'rows KeyAverages, name: &str) -> &'rows KeyAverage {
    let mut rows = averages.rows.iter().filter(|row| row.name == name);
    let row = rows.next().unwrap_or_else(|| panic!("{name} in {averages:?}"));
    assert!(rows.next().is_none(), "{name} is several rows");
    row
}
