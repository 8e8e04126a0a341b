//! Tests of the JSON repair with text that recorders write.

use serde_json::{Value, json};

use super::*;

fn repaired(text: &[u8]) -> Option<(Value, usize)> {
    match repair(text, true) {
        Repaired::Whole(json, length) => {
            let value = serde_json::from_slice(&json);
            let json = String::from_utf8_lossy(&json).into_owned();
            Some((value.unwrap_or_else(|error| panic!("{error}: {json}")), length))
        }
        Repaired::Unfinished | Repaired::Hopeless => None,
    }
}

#[test]
fn invalid_json_of_recorders_is_repaired() {
    let cases: [(&[u8], Value); 19] = [
        (br#"{"a": nan, "b": -inf, "c": N/A}"#, json!({"a": "nan", "b": "-inf", "c": "N/A"})),
        (
            br#"{"a": +5, "b": .5, "c": 5., "d": 1e999}"#,
            json!({"a": 5, "b": 0.5, "c": 5, "d": "1e999"}),
        ),
        (br#"{"a": True, "b": None, "c": run 7}"#, json!({"a": true, "b": null, "c": "run 7"})),
        (br#"{"a": "C:\dir\x", "b": 1}"#, json!({"a": "C:\\dir\\x", "b": 1})),
        (br#"{"a": "C:\dir\", "b": 1}"#, json!({"a": "C:\\dir\\", "b": 1})),
        (br#"{"a": "C:\dir\"}"#, json!({"a": "C:\\dir\\"})),
        (br#"{"a": "\u12 \ud800 \ud83d\ude00"}"#, json!({"a": "\\u12 \u{fffd} \u{1f600}"})),
        (br#"{"a": "f("x", y)", "b": "z"}"#, json!({"a": "f(\"x\", y)", "b": "z"})),
        (br#"{"a": "say "hi"", "b": "z"}"#, json!({"a": "say \"hi\"", "b": "z"})),
        (
            br#"{"a": "{\"b\": \"c\", \"d\": 1}", "e": 2}"#,
            json!({"a": "{\"b\": \"c\", \"d\": 1}", "e": 2}),
        ),
        (
            b"{\"a\": \"\xc4\xe3\", \"b\": \"\xc3\xa9\"}",
            json!({"a": "\u{fffd}\u{fffd}", "b": "\u{e9}"}),
        ),
        (b"{\"a\": \"x\ty\", \"b\": 1}", json!({"a": "x\ty", "b": 1})),
        (br#"{,"a": [,1,,2,], "b": {"c": 1,},}"#, json!({"a": [1, 2], "b": {"c": 1}})),
        (br#"{"a": 1 "b": 2}"#, json!({"a": 1, "b": 2})),
        (br#"{"a": "x" "b": 2}"#, json!({"a": "x", "b": 2})),
        (br#"{"a": , "b": }"#, json!({"a": null, "b": null})),
        (br#"{"a": ["x\y", "z"]}"#, json!({"a": ["x\\y", "z"]})),
        (br#"{"a": {"b": {}}}"#, json!({"a": {"b": {}}})),
        (br#"nan"#, json!("nan")),
    ];
    for (text, expected) in cases {
        let shown = String::from_utf8_lossy(text);
        let (value, length) = repaired(text).unwrap_or_else(|| panic!("nothing of {shown}"));
        assert_eq!((value, length), (expected, text.len()), "{shown}");
    }
}

#[test]
fn truncated_json_is_not_repaired() {
    for text in [&b"{\"a\": 1"[..], b"{\"a\": \"b", b"{\"a\": [1, 2"] {
        assert_eq!(repair(text, false), Repaired::Unfinished);
    }
    // An unterminated string must not swallow the next event.
    let open = b"{\"a\": \"b\n{\"ph\": \"X\"}";
    assert_eq!(repair(open, true), Repaired::Hopeless);
    assert_eq!(repair(b"{\"a\": [[1, 2], \"b\": 2}", true), Repaired::Unfinished);
    assert_eq!(repair(b"{\"a\": 1, {\"ph\": \"X\"}", true), Repaired::Hopeless);
}
