//! What traces are written as.

use std::fmt;

use super::TensorProfiler;

/// A format of traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TraceFormat {
    /// Chrome's trace events as Kineto writes them, compressed by gzip: `.pt.trace.json.gz`.
    Json,
    /// Perfetto's own: `.pftrace`. Smaller than JSON, read faster, and nothing is lost that crosses something.
    #[cfg(feature = "trace-formats")]
    Pftrace,
    /// XSpace, for XProf and TensorBoard's Profile page: `.xplane.pb`.
    #[cfg(feature = "trace-formats")]
    Xplane,
}

impl TraceFormat {
    /// What files end in.
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

/// Its ending, as in the names of files.
impl fmt::Display for TraceFormat {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(self.ending())
    }
}

/// What the files of a cycle are, each once.
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
    /// What the trace of every cycle is written as: Kineto's JSON, which is the default, Perfetto's
    /// own format or XProf's, or several of them; none of them as with
    /// [`export_trace(false)`](Self::export_trace). The files of a cycle differ in their endings
    /// only, and are to the byte what `mlprof convert` makes of the JSON. `parquet` is beside them.
    ///
    #[cfg_attr(feature = "trace-formats", doc = "```")]
    #[cfg_attr(not(feature = "trace-formats"), doc = "```ignore")]
    /// use mlprof_core::TensorProfiler;
    /// use mlprof_core::tensor::TraceFormat::{Json, Pftrace};
    ///
    /// let profiler = TensorProfiler::new().trace_formats([Json, Pftrace]);
    /// ```
    ///
    /// *Cost* of what is not JSON: some 4 µs per event at the end of the cycle, for each format, half of it on a thread of
    /// ours, and 180 bytes of memory for as long, so [`max_events`](Self::max_events) bounds it.
    ///
    /// Formats other than JSON need the feature `trace-formats`.
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
