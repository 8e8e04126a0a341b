//! Comparison of result rows between two engines.

use serde_json::{Map, Value};

/// Row of a result.
pub type Row = Map<String, Value>;

/// Compares two values. Floating-point sums may differ slightly, because the order of additions
/// varies.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        _ => one == other,
    }
}

/// Checks that two results are equal and returns the number of compared values. `ours` may omit
/// columns that are NULL.
pub fn compared(ours: &[Row], theirs: &[Row], what: &str) -> usize {
    let mut count = 0;
    assert_eq!(ours.len(), theirs.len(), "{what}: {theirs:?}");
    for (row, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        for (column, value) in theirs {
            let own = ours.get(column).unwrap_or(&Value::Null);
            assert!(is_same(own, value), "{what}, row {row}, {column}: {own} here, {value} there");
            count += 1;
        }
        assert!(ours.keys().all(|column| theirs.contains_key(column)), "{what}: {ours:?}");
    }
    count
}
