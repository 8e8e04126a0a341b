//! What else a trace says, if it is asked for.

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

/// The error of metadata that cannot be added to a trace.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The text is not JSON; the reason.
    #[error("metadata of a trace must be JSON: {0}")]
    NotJson(String),
    /// The trace has something of this name itself.
    #[error("a trace has \"{0}\" itself; give the metadata another name, such as \"my_{0}\"")]
    NameTaken(String),
}

mlprof_events::debug_as_display!(Error);

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
    /// [`Error`] if `json` is none, or the trace has that name itself.
    pub fn add_metadata_json(&mut self, name: &str, json: &str) -> Result<(), Error> {
        let value = serde_json::from_str(json);
        self.add(name, value.map_err(|error| Error::NotJson(error.to_string()))?)
    }

    /// The same for a text.
    ///
    /// # Errors
    ///
    /// [`Error`] if the trace has that name itself.
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

    /// What was added, as JSON.
    pub(crate) fn metadata(&self) -> impl Iterator<Item = (&str, String)> {
        self.metadata.iter().map(|(name, value)| (name.as_str(), value.to_string()))
    }
}
