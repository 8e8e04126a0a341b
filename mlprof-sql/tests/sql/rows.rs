//! Answers, row by row, of one engine beside those of another.

use serde_json::{Map, Value};

/// A row of an answer.
pub type Row = Map<String, Value>;

/// Sums of real numbers differ by the order in which they are added up.
fn is_same(one: &Value, other: &Value) -> bool {
    match (one.as_f64(), other.as_f64()) {
        (Some(one), Some(other)) => (one - other).abs() <= 1e-9 * one.abs().max(other.abs()),
        _ => one == other,
    }
}

/// How many values of two answers are the same, which all of them are. A column without a value may be left out of `ours`.
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
