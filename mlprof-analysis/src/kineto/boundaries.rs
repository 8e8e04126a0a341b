//! Detection of event and list boundaries in damaged text.

use super::fields::tolerant_struct;
use super::stream::parse;

/// Top-level fields that can follow the event list in the known formats.
const LATER_FIELDS: [&str; 20] = [
    "traceEvents",
    "traceName",
    "displayTimeUnit",
    "schemaVersion",
    "baseTimeNanoseconds",
    "deviceProperties",
    "distributedInfo",
    "hostname",
    "mlprof",
    "metadata",
    "otherData",
    "stackFrames",
    "samples",
    "systemTraceEvents",
    "controllerTraceDataKey",
    "powerTraceAsString",
    "record_shapes",
    "profile_memory",
    "with_stack",
    "trace_id",
];

tolerant_struct! {
    /// Phase field, which identifies an object as an event.
    pub(super) struct Probe<'a> {
        phase: Option<&'a serde_json::value::RawValue> = "ph",
    }
}

/// Returns whether a text begins with an event. `None` if the text is too short to decide.
pub(super) fn is_event(text: &[u8]) -> Option<bool> {
    let inside = text[1..].iter().position(|byte| !byte.is_ascii_whitespace())?;
    if text[1 + inside] != b'"' {
        return Some(false);
    }
    match parse::<Probe<'_>>(text).0 {
        Ok(probe) => Some(probe.phase.is_some()),
        Err(error) if error.is_eof() => None,
        Err(_) => Some(false),
    }
}

/// Returns whether a text begins with the end of the event list. `None` if the text is too short to
/// decide.
pub(super) fn is_end(text: &[u8], is_all: bool) -> Option<bool> {
    let rest = text[1..].trim_ascii_start();
    match rest.first() {
        None => is_all.then_some(true),
        Some(b'}') => match rest[1..].trim_ascii_start() {
            [] => is_all.then_some(true),
            _ => Some(false),
        },
        Some(b',') => match rest[1..].trim_ascii_start() {
            [] => is_all.then_some(true),
            name if name.len() < 40 && !is_all => None,
            name => Some(is_later_field(name)),
        },
        Some(_) => Some(false),
    }
}

/// Returns whether no event follows the closing brackets at the beginning of a text. `None` if the
/// text is too short to decide.
pub(super) fn is_no_stray(text: &[u8], is_all: bool) -> Option<bool> {
    let is_closing = |byte: &u8| matches!(byte, b']' | b'}') || byte.is_ascii_whitespace();
    let at = text.iter().position(|byte| !is_closing(byte));
    let next = at.and_then(|at| {
        let is_comma = text[at] == b',';
        let after = text[at + 1..].iter().find(|byte| !byte.is_ascii_whitespace());
        if is_comma { after.map(|after| *after != b'{') } else { Some(true) }
    });
    next.or(is_all.then_some(true))
}

/// Returns `true` if a text begins with the name of a field that can follow the event list.
pub(super) fn is_later_field(text: &[u8]) -> bool {
    let Some(name) = text.strip_prefix(b"\"") else { return false };
    LATER_FIELDS.iter().any(|field| {
        let after = name.strip_prefix(field.as_bytes()).and_then(|it| it.strip_prefix(b"\""));
        after.is_some_and(|after| after.trim_ascii_start().first() == Some(&b':'))
    })
}
