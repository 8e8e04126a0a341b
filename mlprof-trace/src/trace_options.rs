//! What else a trace says, if it is asked for.

use std::fmt;

/// What else a trace says of a cycle. By default nothing.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TraceOptions {
    /// The floating-point operations of each op, as `flops` among its arguments: those that the table
    /// counts. They are reckoned from the shapes.
    pub with_flops: bool,
    /// What was open around each op, with places in the source as far as they are known, as `Call stack`
    /// among its arguments.
    pub with_stack: bool,
    /// What the trace is known by; `None` for a random one.
    pub trace_id: Option<String>,
    metadata: Vec<(String, serde_json::Value)>,
}

/// Why something cannot stand in a trace.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum InvalidMetadata {
    /// It is no JSON; why not.
    NotJson(String),
    /// The trace has something of this name itself.
    NameTaken(String),
}

mlprof_events::debug_as_display!(InvalidMetadata);

impl fmt::Display for InvalidMetadata {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotJson(reason) => {
                write!(formatter, "metadata of a trace must be JSON: {reason}")
            }
            Self::NameTaken(name) => write!(
                formatter,
                "a trace has \"{name}\" itself; give the metadata another name, such as \"my_{name}\""
            ),
        }
    }
}

impl std::error::Error for InvalidMetadata {}

/// What traces have at the top.
const TAKEN: [&str; 14] = [
    "schemaVersion",
    "deviceProperties",
    "distributedInfo",
    "displayTimeUnit",
    "baseTimeNanoseconds",
    "trace_id",
    "hostname",
    "record_shapes",
    "profile_memory",
    "with_flops",
    "with_stack",
    "mlprof",
    "traceEvents",
    "traceName",
];

impl TraceOptions {
    /// Has the trace say this of itself, at the top; again under the same name replaces it.
    ///
    /// # Errors
    ///
    /// [`InvalidMetadata`] if `json` is none, or the trace has that name itself.
    pub fn add_metadata_json(&mut self, name: &str, json: &str) -> Result<(), InvalidMetadata> {
        let value = serde_json::from_str(json);
        self.add(name, value.map_err(|error| InvalidMetadata::NotJson(error.to_string()))?)
    }

    /// The same for a text.
    ///
    /// # Errors
    ///
    /// [`InvalidMetadata`] if the trace has that name itself.
    pub fn add_metadata(&mut self, name: &str, text: &str) -> Result<(), InvalidMetadata> {
        self.add(name, text.into())
    }

    fn add(&mut self, name: &str, value: serde_json::Value) -> Result<(), InvalidMetadata> {
        if TAKEN.contains(&name) {
            return Err(InvalidMetadata::NameTaken(name.to_owned()));
        }
        match self.metadata.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.metadata.push((name.to_owned(), value)),
        }
        Ok(())
    }

    /// What was added, as JSON.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (&str, String)> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.to_string()))
    }
}
