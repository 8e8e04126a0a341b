//! Optional content of traces.

/// Optional content of a cycle's traces. All of it is off by default.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct TraceOptions {
    /// Adds the floating-point operations of each op as the argument `flops`, and the bytes that it
    /// reads and writes at least as `bytes`, as in tables. They are computed from the shapes.
    pub with_flops: bool,
    /// Adds the scopes that were open around each op as the argument `Call stack`, with source
    /// locations if they are known.
    pub with_stack: bool,
    /// Id of the trace; `None` for a random one.
    pub trace_id: Option<String>,
    metadata: Vec<(String, serde_json::Value)>,
}

/// Error for metadata that cannot be added to a trace.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not valid JSON. Contains the reason.
    #[error("cannot add the metadata to the trace: it is not valid JSON: {0}")]
    NotJson(String),
    /// The name is reserved for the trace itself.
    #[error(
        "cannot add the metadata \"{0}\": traces reserve this name; use another name, such as \"my_{0}\""
    )]
    NameTaken(String),
}

mlprof_events::debug_as_display!(Error);

/// Names of a trace's own top-level fields.
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
    /// Adds a top-level field to the trace, or replaces an added field with the same name.
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] if `json` is not valid JSON, or if the name is reserved.
    pub fn add_metadata_json(&mut self, name: &str, json: &str) -> Result<(), Error> {
        let value = serde_json::from_str(json);
        self.add(name, value.map_err(|error| Error::NotJson(error.to_string()))?)
    }

    /// Adds a top-level field with a string to the trace, or replaces an added field with the same
    /// name.
    ///
    /// # Errors
    ///
    /// Returns an [`Error`] if the name is reserved.
    pub fn add_metadata(&mut self, name: &str, text: &str) -> Result<(), Error> {
        self.add(name, text.into())
    }

    fn add(&mut self, name: &str, value: serde_json::Value) -> Result<(), Error> {
        if TAKEN.contains(&name) {
            return Err(Error::NameTaken(name.to_owned()));
        }
        match self.metadata.iter_mut().find(|(known, _)| known == name) {
            Some((_, known)) => *known = value,
            None => self.metadata.push((name.to_owned(), value)),
        }
        Ok(())
    }

    /// Returns the added fields as JSON.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (&str, String)> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.to_string()))
    }
}
