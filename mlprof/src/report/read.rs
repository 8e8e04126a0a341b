//! Reads files of results: reports as JSON, alone or several in a list, and traces; plain or
//! compressed by gzip. Within [limits](super::unpack): a small file does not take all memory.

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

/// What is in a file.
#[derive(Debug)]
pub(crate) enum Content {
    /// One report, or several of one run. Not empty.
    Reports(Vec<Report>),
    /// What happened when.
    Trace(Box<Trace>),
}

/// Reads a file, a trace by `trace`: [`unpack::trace`], or with more of it. Reports are read as a whole.
///
/// # Errors
///
/// Why it cannot be read, or what is wrong in it.
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

/// The report that a value is.
///
/// # Errors
///
/// What is wrong with it.
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

/// Objects that may be reports; stops where it is seen that it is a trace.
struct DocumentVisitor<'a> {
    is_trace: &'a Cell<bool>,
}

impl DocumentVisitor<'_> {
    fn stop<E: serde::de::Error>(&self) -> E {
        self.is_trace.set(true);
        E::custom("a trace is read otherwise")
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
            // Chrome's traces may be a list of events.
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
