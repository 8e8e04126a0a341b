//! JSON objects without lists and objects in them, one member a line: what our own programs write.

use std::collections::BTreeMap;

/// A member's value: text, a number, or nothing where it was `null`.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Text(String),
    Number(f64),
    Null,
}

/// All members; nothing if there is a line that is none.
pub fn parse(text: &str) -> Option<BTreeMap<String, Value>> {
    let members = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let lines = members.lines().map(str::trim).filter(|line| !line.is_empty());
    lines
        .map(|line| {
            let (key, value) = line.strip_suffix(',').unwrap_or(line).split_once(':')?;
            Some((unquoted(key.trim())?.to_owned(), parse_value(value.trim())?))
        })
        .collect()
}

fn parse_value(text: &str) -> Option<Value> {
    if text == "null" {
        return Some(Value::Null);
    }
    match unquoted(text) {
        Some(text) => Some(Value::Text(text.to_owned())),
        None => text.parse().ok().map(Value::Number),
    }
}

/// Names of ours need no escapes.
fn unquoted(text: &str) -> Option<&str> {
    let text = text.strip_prefix('"')?.strip_suffix('"')?;
    (!text.contains(['"', '\\'])).then_some(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flat_objects_are_read() {
        let text = "{\n  \"framework\": \"candle\",\n  \"share\": -1.5e-3,\n  \"low\": null,\n  \"n\": 3\n}\n";
        let members = parse(text).expect("an object");
        assert_eq!(members["framework"], Value::Text("candle".into()));
        assert_eq!(members["share"], Value::Number(-0.0015));
        assert_eq!((&members["low"], &members["n"]), (&Value::Null, &Value::Number(3.0)));
        assert_eq!(parse("{}").map(|members| members.len()), Some(0));
    }

    #[test]
    fn others_are_refused() {
        for text in ["", "[1]", "{\n\"a\": {\n}\n}", "{\n\"a\": [\n1\n]\n}", "{\n\"a\": tru\n}"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
