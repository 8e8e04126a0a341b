//! Reads files of results: reports as JSON, alone or several in a list, and traces; plain or
//! compressed by gzip. Within [limits](super::unpack): a small file does not take all memory.

use std::fmt;
use std::path::Path;
use std::rc::Rc;

use profiler_report::Report;
use profiler_report::SCHEMA_VERSION;
use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};

use super::Error;
use super::unpack::{self, Limit};
use crate::trace::{Trace, TraceBuilder};

/// What is in a file.
#[derive(Debug)]
pub(crate) enum Content {
    /// One report, or several of one run. Not empty.
    Reports(Vec<Report>),
    /// What happened when.
    Trace(Trace),
}

/// Reads a file. *Cost*: traces are read event by event, and need some 32 bytes of memory for each.
/// Reports are read as a whole.
///
/// # Errors
///
/// Why it cannot be read, or what is wrong in it.
pub(crate) fn read(path: &Path) -> Result<Content, Error> {
    let unreadable = |error| Error::Read { path: path.to_owned(), error };
    let (limit, reader) = unpack::open(path).map_err(unreadable)?;
    let mut json = serde_json::Deserializer::from_reader(reader);
    let visitor = DocumentVisitor { limit };
    let document = json.deserialize_any(visitor).and_then(|it| json.end().map(|()| it));
    let document = document.map_err(|error| match error.is_io() {
        true => unreadable(error.into()),
        false => Error::NotJson { path: path.to_owned(), error },
    })?;
    match document {
        Document::Trace(trace) => match trace.finish() {
            Some(trace) => Ok(Content::Trace(trace)),
            None => Err(Error::EmptyTrace { path: path.to_owned() }),
        },
        Document::Values(values) if !values.is_empty() => {
            let reports = values.into_iter().map(|value| report(path, value));
            Ok(Content::Reports(reports.collect::<Result<_, _>>()?))
        }
        Document::Values(_) => Err(Error::NeitherReportNorTrace { path: path.to_owned() }),
    }
}

fn report(path: &Path, value: Value) -> Result<Report, Error> {
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

enum Document {
    Trace(Box<TraceBuilder>),
    /// Objects that may be reports.
    Values(Vec<Value>),
}

struct DocumentVisitor {
    limit: Rc<Limit>,
}

impl<'de> Visitor<'de> for DocumentVisitor {
    type Value = Document;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a report, a list of reports or a trace")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Document, A::Error> {
        let mut values = Vec::new();
        while let Some(value) = list.next_element()? {
            values.push(value);
        }
        Ok(Document::Values(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Document, A::Error> {
        let mut trace: Option<Box<TraceBuilder>> = None;
        let mut fields = Map::new();
        while let Some(name) = map.next_key::<String>()? {
            if name == "traceEvents" {
                self.limit.lift();
                let builder = trace.get_or_insert_default();
                map.next_value_seed(Events(builder))?;
            } else if trace.is_some() {
                map.next_value::<IgnoredAny>()?;
            } else {
                fields.insert(name, map.next_value()?);
            }
        }
        Ok(match trace {
            Some(trace) => Document::Trace(trace),
            None => Document::Values(vec![Value::Object(fields)]),
        })
    }
}

/// Takes the events of a trace one by one.
struct Events<'builder>(&'builder mut TraceBuilder);

impl<'de> DeserializeSeed<'de> for Events<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for Events<'_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of events")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        while let Some(event) = list.next_element()? {
            self.0.add(event);
        }
        Ok(())
    }
}
