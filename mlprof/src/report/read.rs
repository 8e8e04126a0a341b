//! Reads result files: reports as JSON, alone or in a list, and traces. Files may be compressed by
//! gzip. [Limits](super::unpack) prevent a small file from using all memory.

use std::cell::Cell;
use std::fmt;
use std::path::Path;

use mlprof_analysis::Trace;
use mlprof_report::Report;
use mlprof_report::SCHEMA_VERSION;
use serde::de::{Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Error;
use super::unpack;

/// Content of a result file.
#[derive(Debug)]
pub(crate) enum Content {
    /// One report, or several reports of one run; never empty.
    Reports(Vec<Report>),
    /// Trace with its timeline.
    Trace(Box<Trace>),
}

/// Reads a file. A trace is read by the function `trace`, for example [`unpack::trace`]. Reports
/// are read as a whole.
///
/// # Errors
///
/// Returns an error if the file cannot be read or its content is invalid.
pub(crate) fn read(
    path: &Path,
    trace: impl FnOnce(&Path) -> Result<Trace, Error>,
) -> Result<Content, Error> {
    let unreadable = |error| Error::Read { path: path.to_owned(), error };
    let mut json = serde_json::Deserializer::from_reader(unpack::report(path).map_err(unreadable)?);
    let is_trace = Cell::new(false);
    let visitor = DocumentVisitor { is_trace: &is_trace };
    let values = json.deserialize_any(visitor).and_then(|it| json.end().map(|()| it));
    if is_trace.get() {
        return Ok(Content::Trace(Box::new(trace(path)?)));
    }
    let values = values.map_err(|error| match error.is_io() {
        true => unreadable(error.into()),
        false => Error::NotJson { path: path.to_owned(), error },
    })?;
    if values.is_empty() {
        return Err(Error::NeitherReportNorTrace { path: path.to_owned() });
    }
    let reports = values.into_iter().map(|value| report(path, value));
    Ok(Content::Reports(reports.collect::<Result<_, _>>()?))
}

/// Converts a JSON value into a report.
///
/// # Errors
///
/// Returns an error if the value is not a supported report.
pub(super) fn report(path: &Path, value: Value) -> Result<Report, Error> {
    let path = path.to_owned();
    if value.get("profiler").is_none() {
        return Err(Error::NeitherReportNorTrace { path });
    }
    let version = value.pointer("/header/schema_version").and_then(Value::as_u64);
    if let Some(found) = version.filter(|found| *found > u64::from(SCHEMA_VERSION)) {
        return Err(Error::Newer { path, found });
    }
    serde_json::from_value(value).map_err(|error| Error::NotUnderstood { path, error })
}

/// Visitor that collects objects that may be reports. It stops as soon as the document is
/// recognised as a trace.
struct DocumentVisitor<'a> {
    is_trace: &'a Cell<bool>,
}

impl DocumentVisitor<'_> {
    fn stop<E: serde::de::Error>(&self) -> E {
        self.is_trace.set(true);
        E::custom("a trace has its own reader")
    }
}

impl<'de> Visitor<'de> for DocumentVisitor<'_> {
    type Value = Vec<Value>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a report, a list of reports or a trace")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<Value>, A::Error> {
        let mut values: Vec<Value> = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
            // A trace in Chrome's format may also be a plain list of events.
            if values[0].get("ph").is_some() {
                return Err(self.stop());
            }
        }
        Ok(values)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Vec<Value>, A::Error> {
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "traceEvents" {
                return Err(self.stop());
            }
            fields.insert(name, map.next_value()?);
        }
        Ok(vec![Value::Object(fields)])
    }
}
