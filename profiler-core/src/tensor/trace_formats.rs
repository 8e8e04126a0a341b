//! File formats of traces.

use std::fmt;

use super::TensorProfiler;

/// File format of a trace.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFormat {
    /// Chrome trace events in Kineto's form, compressed with gzip: `.pt.trace.json.gz`.
    Json,
    /// Perfetto's own format: `.pftrace`. It is smaller than JSON and faster to read, and it keeps
    /// events that overlap others.
    #[cfg(feature = "trace-formats")]
    Pftrace,
    /// XSpace for XProf and for TensorBoard's Profile page: `.xplane.pb`.
    #[cfg(feature = "trace-formats")]
    Xplane,
}

impl TraceFormat {
    /// Returns the file name extension.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Json => "pt.trace.json.gz",
            #[cfg(feature = "trace-formats")]
            Self::Pftrace => "pftrace",
            #[cfg(feature = "trace-formats")]
            Self::Xplane => "xplane.pb",
        }
    }
}

/// Prints the file name extension.
impl fmt::Display for TraceFormat {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(self.ending())
    }
}

/// Set of the formats to write.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceFormats([bool; ALL.len()]);

const ALL: &[TraceFormat] = &[
    TraceFormat::Json,
    #[cfg(feature = "trace-formats")]
    TraceFormat::Pftrace,
    #[cfg(feature = "trace-formats")]
    TraceFormat::Xplane,
];

impl Default for TraceFormats {
    fn default() -> Self {
        Self(std::array::from_fn(|place| ALL[place] == TraceFormat::Json))
    }
}

impl TraceFormats {
    pub(super) fn each(self) -> impl Iterator<Item = TraceFormat> {
        ALL.iter().zip(self.0).filter(|(_, is_asked)| *is_asked).map(|(format, _)| *format)
    }
}

impl TensorProfiler {
    /// Selects the file formats for the trace of every cycle: Kineto's JSON (the default),
    /// Perfetto's format, XProf's, or several of them. An empty list works like
    /// [`export_trace(false)`](Self::export_trace). The files of a cycle differ only in their
    /// extensions. They are byte-identical to the files that `mlprof convert` makes from the JSON.
    /// `parquet` is a separate setting.
    ///
    #[cfg_attr(feature = "trace-formats", doc = "```")]
    #[cfg_attr(not(feature = "trace-formats"), doc = "```ignore")]
    /// use mlprof_core::TensorProfiler;
    /// use mlprof_core::tensor::TraceFormat::{Json, Pftrace};
    ///
    /// let profiler = TensorProfiler::new().trace_formats([Json, Pftrace]);
    /// ```
    ///
    /// *Cost* of each format except JSON: about 4 µs per event at the end of the cycle, half of it
    /// on an mlprof thread. Meanwhile each event uses 180 bytes of memory, which
    /// [`max_events`](Self::max_events) bounds.
    ///
    /// Formats other than JSON require the feature `trace-formats`.
    #[must_use]
    pub fn trace_formats(mut self, formats: impl IntoIterator<Item = TraceFormat>) -> Self {
        let mut asked = [false; ALL.len()];
        for format in formats {
            let places = ALL.iter().zip(&mut asked).filter(|(one, _)| **one == format);
            places.for_each(|(_, is_asked)| *is_asked = true);
        }
        self.settings.export.formats = TraceFormats(asked);
        self
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn json_is_written_unless_something_else_is_said() {
        let formats = |profiler: &TensorProfiler| -> Vec<TraceFormat> {
            profiler.settings.export.formats.each().collect()
        };
        assert_eq!(formats(&TensorProfiler::new()), [TraceFormat::Json]);
        let twice = TensorProfiler::new().trace_formats([TraceFormat::Json; 2]);
        assert_eq!(formats(&twice), [TraceFormat::Json]);
        assert_eq!(formats(&twice.trace_formats([])), []);
    }
}
