//! Compact JSON of a page: many objects of one kind are stored as columns. Field names and repeated
//! values are then written once.
//!
//! `[{"name": "mm", "calls": 4}, {"name": "mm", "calls": 7}, …]` becomes `{"#": 2, "calls": [4, 7],
//! "name": {"=": ["mm"], "@": [0, 0]}}`.
//!
//! - `#` is the number of objects.
//! - `=` lists the distinct values of a column with few of them. `@` contains the index of each
//!   row's value.
//! - A missing field is `null` in its column.
//! - Nested objects become nested columns.
//!
//! `page/src/unpack.ts` reverses the conversion.

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

/// Minimum number of objects for columns.
const LEAST: usize = 4;
// These names do not occur as fields of a report.
const COUNT: &str = "#";
const VALUES: &str = "=";
const WHICH: &str = "@";
/// Limits on nesting and size, beyond which values are not checked for duplicates.
const DEEPEST: usize = 3;
const LARGEST: usize = 64;

type Object = Map<String, Value>;

/// Converts arrays of many objects into columns. A field that is `null` is equivalent to a missing
/// field.
pub(super) fn packed(value: Value) -> Value {
    match value {
        Value::Array(values) if values.len() >= LEAST && values.iter().all(is_row) => {
            let rows = values.into_iter().map(|value| match value {
                Value::Object(fields) => Some(fields),
                _ => None,
            });
            columns(rows.collect())
        }
        Value::Array(values) => Value::Array(values.into_iter().map(packed).collect()),
        Value::Object(fields) => {
            Value::Object(fields.into_iter().map(|(name, value)| (name, packed(value))).collect())
        }
        value => value,
    }
}

/// Returns `true` for an object with at least one value that is not null. Any other object could
/// not be restored.
fn is_row(value: &Value) -> bool {
    match value {
        Value::Object(fields) => fields.values().any(|value| !value.is_null()),
        _ => false,
    }
}

fn columns(rows: Vec<Option<Object>>) -> Value {
    let count = rows.len();
    let mut columns: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for (index, row) in rows.into_iter().enumerate() {
        for (name, value) in row.into_iter().flatten() {
            if !value.is_null() {
                columns.entry(name).or_insert_with(|| vec![Value::Null; count])[index] = value;
            }
        }
    }
    let columns = columns.into_iter().map(|(name, values)| (name, column(values)));
    let count = (COUNT.to_owned(), Value::from(count));
    Value::Object(std::iter::once(count).chain(columns).collect())
}

fn column(values: Vec<Value>) -> Value {
    if values.iter().all(|value| value.is_null() || is_row(value)) {
        let rows = values.into_iter().map(|value| match value {
            Value::Object(fields) => Some(fields),
            _ => None,
        });
        return columns(rows.collect());
    }
    if values.iter().all(|value| parts(value, DEEPEST).is_some_and(|parts| parts <= LARGEST)) {
        return distinct(values);
    }
    Value::Array(values.into_iter().map(packed).collect())
}

/// Returns the number of numbers and texts in a value, or `None` if it is nested too deeply.
fn parts(value: &Value, deepest: usize) -> Option<usize> {
    let inner: Vec<&Value> = match value {
        Value::Array(values) => values.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => return Some(1),
    };
    let deepest = deepest.checked_sub(1)?;
    inner.into_iter().try_fold(1, |sum, value| Some(sum + parts(value, deepest)?))
}

/// Stores each distinct value once, if this is shorter.
fn distinct(values: Vec<Value>) -> Value {
    let texts: Vec<String> = values.iter().map(Value::to_string).collect();
    let mut places: HashMap<&str, usize> = HashMap::new();
    let mut each: Vec<usize> = Vec::new();
    let mut which: Vec<usize> = Vec::new();
    for (index, text) in texts.iter().enumerate() {
        let place = *places.entry(text).or_insert_with(|| {
            each.push(index);
            each.len() - 1
        });
        which.push(place);
    }
    // The sum includes a comma for each value and the two names.
    let digits = |place: &usize| place.checked_ilog10().unwrap_or(0) as usize + 2;
    let once = each.iter().map(|index| texts[*index].len() + 1).sum::<usize>();
    let short = once + which.iter().map(digits).sum::<usize>() + 14;
    if short >= texts.iter().map(|text| text.len() + 1).sum() {
        return Value::Array(values);
    }
    let values = each.into_iter().map(|index| values[index].clone()).collect();
    let which = which.into_iter().map(Value::from).collect();
    Value::Object(Object::from_iter([
        (VALUES.to_owned(), Value::Array(values)),
        (WHICH.to_owned(), Value::Array(which)),
    ]))
}

/// Reverses [`packed`]. Returns `None` if the value is not in this format.
pub(super) fn unpacked(value: Value) -> Option<Value> {
    match value {
        Value::Array(values) => values.into_iter().map(unpacked).collect(),
        Value::Object(fields) if fields.contains_key(COUNT) => {
            let rows = rows_of(fields)?.into_iter();
            Some(rows.map(|row| Value::Object(row.unwrap_or_default())).collect())
        }
        Value::Object(fields) => {
            let fields = fields.into_iter().map(|(name, value)| Some((name, unpacked(value)?)));
            fields.collect::<Option<Object>>().map(Value::Object)
        }
        value => Some(value),
    }
}

fn rows_of(mut columns: Object) -> Option<Vec<Option<Object>>> {
    let count = usize::try_from(columns.remove(COUNT)?.as_u64()?).ok()?;
    let mut rows: Vec<Option<Object>> = Vec::new();
    for (name, column) in columns {
        let values = values_of(column)?;
        rows.resize_with(values.len().max(rows.len()), || None);
        for (row, value) in rows.iter_mut().zip(values).filter(|(_, value)| !value.is_null()) {
            row.get_or_insert_default().insert(name.clone(), value);
        }
    }
    (rows.len() == count).then_some(rows)
}

fn values_of(column: Value) -> Option<Vec<Value>> {
    match column {
        Value::Object(inner) if inner.contains_key(COUNT) => {
            let rows = rows_of(inner)?.into_iter();
            Some(rows.map(|row| row.map_or(Value::Null, Value::Object)).collect())
        }
        Value::Object(column) => {
            let values = column.get(VALUES)?.as_array()?;
            let which = column.get(WHICH)?.as_array()?.iter();
            let value = |place: &Value| values.get(usize::try_from(place.as_u64()?).ok()?).cloned();
            which.map(value).collect()
        }
        Value::Array(values) => values.into_iter().map(unpacked).collect(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn many_objects_are_columns() {
        let row = |name: &str, calls: u64| json!({ "name": name, "calls": calls });
        let rows = json!([row("mm", 4), row("mm", 5), row("exp", 6), row("mm", 7), row("mm", 8)]);
        let columns = json!({ "#": 5, "calls": [4, 5, 6, 7, 8],
                              "name": { "=": ["mm", "exp"], "@": [0, 0, 1, 0, 0] } });
        // These names are too short for a list of distinct values.
        let plain =
            json!({ "#": 5, "calls": [4, 5, 6, 7, 8], "name": ["mm", "mm", "exp", "mm", "mm"] });
        assert_eq!(packed(rows.clone()), plain);
        let long = |value: Value| -> Value {
            let text = value.to_string().replace("mm", "aten::linalg_vector_norm");
            serde_json::from_str(&text).expect("JSON")
        };
        assert_eq!(packed(long(rows)), long(columns));
        let few = json!([row("a", 1), row("b", 2), row("c", 3)]);
        assert_eq!(packed(few.clone()), few);
    }

    #[test]
    fn packed_values_are_read_back() {
        let shapes = json!([{ "tensor": ["float32", [64, 10]] }, null]);
        let row = |index: u64| {
            let mut row = json!({
                "name": format!("op {}", index % 2), "shapes": shapes, "seconds": index as f64 * 0.1,
                "list": [index, index + 1], "inner": { "a": index, "b": { "c": "x" } },
                "children": (0..index).map(|child| json!({ "deep": [[[[child]]]] })).collect::<Vec<_>>(),
            });
            if index.is_multiple_of(3) {
                row.as_object_mut().expect("it is one").remove("inner");
            }
            row
        };
        let rows: Vec<Value> = (0..9).map(row).collect();
        let value = json!({ "rows": rows, "mixed": [1, "a", {}, [], { "b": 1 }], "none": [],
                            "blank": [{}, {}, {}, {}, {}] });
        let mut packed = packed(value.clone());
        assert_eq!(packed["rows"][COUNT], 9);
        assert_eq!(unpacked(packed.clone()), Some(value));
        packed["rows"][COUNT] = 10.into();
        assert_eq!(unpacked(packed), None, "that is cut short");
    }
}
