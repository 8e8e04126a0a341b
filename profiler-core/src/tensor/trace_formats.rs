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
    Pftrace,
    /// XSpace, for XProf and TensorBoard's Profile page: `.xplane.pb`.
    Xplane,
}

impl TraceFormat {
    /// What files end in.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Json => "pt.trace.json.gz",
            Self::Pftrace => "pftrace",
            Self::Xplane => "xplane.pb",
        }
    }

    /// Whether this program is built with what writes it.
    const fn is_built(self) -> bool {
        matches!(self, Self::Json) || cfg!(feature = "trace-formats")
    }
}

/// Its ending, as in the names of files.
impl fmt::Display for TraceFormat {
    fn fmt(&self, text: &mut fmt::Formatter<'_>) -> fmt::Result {
        text.write_str(self.ending())
    }
}

/// The program is built without a format that it asks for.
#[derive(Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "no {format} can be written: this program is built without that; turn the feature `trace-formats` of its mlprof plugin on, \
     or of mlprof-core"
)]
#[non_exhaustive]
pub struct TraceFormatNotBuilt {
    /// Which.
    pub format: TraceFormat,
}

mlprof_events::debug_as_display!(TraceFormatNotBuilt);

/// What the files of a cycle are, each once.
#[derive(Debug, Clone, Copy)]
pub(super) struct TraceFormats([bool; ALL.len()]);

const ALL: [TraceFormat; 3] = [TraceFormat::Json, TraceFormat::Pftrace, TraceFormat::Xplane];

impl Default for TraceFormats {
    fn default() -> Self {
        Self(ALL.map(|format| format == TraceFormat::Json))
    }
}

impl TraceFormats {
    pub(super) fn each(self) -> impl Iterator<Item = TraceFormat> {
        ALL.into_iter().zip(self.0).filter(|(_, is_asked)| *is_asked).map(|(format, _)| format)
    }
}

impl TensorProfiler {
    /// What the trace of every cycle is written as: Kineto's JSON, which is the default, Perfetto's own format or XProf's, or
    /// several of them; none of them as with [`export_trace(false)`](Self::export_trace). The files of a cycle differ in
    /// their endings only, and are to the byte what `mlprof convert` makes of the JSON. [`parquet`](Self::parquet) is beside
    /// them.
    ///
    /// ```
    /// use mlprof_core::TensorProfiler;
    /// use mlprof_core::tensor::TraceFormat::{Json, Pftrace};
    ///
    /// let profiler = TensorProfiler::new().trace_formats([Json])?;
    /// # #[cfg(feature = "trace-formats")]
    /// let profiler = profiler.trace_formats([Json, Pftrace])?;
    /// # Ok::<(), mlprof_core::tensor::TraceFormatNotBuilt>(())
    /// ```
    ///
    /// *Cost* of what is not JSON: some 4 µs per event at the end of the cycle, for each format, half of it on a thread of
    /// ours, and 180 bytes of memory for as long, so [`max_events`](Self::max_events) bounds it.
    ///
    /// # Errors
    ///
    /// [`TraceFormatNotBuilt`] for what is not JSON where the feature `trace-formats` is off.
    pub fn trace_formats(
        mut self,
        formats: impl IntoIterator<Item = TraceFormat>,
    ) -> Result<Self, TraceFormatNotBuilt> {
        let mut asked = [false; ALL.len()];
        for format in formats {
            if !format.is_built() {
                return Err(TraceFormatNotBuilt { format });
            }
            let places = ALL.iter().zip(&mut asked).filter(|(one, _)| **one == format);
            places.for_each(|(_, is_asked)| *is_asked = true);
        }
        self.settings.export.formats = TraceFormats(asked);
        Ok(self)
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn what_the_program_is_built_without_is_an_error_at_once() {
        for format in [TraceFormat::Pftrace, TraceFormat::Xplane] {
            let error = TensorProfiler::new().trace_formats([TraceFormat::Json, format]).err();
            match cfg!(feature = "trace-formats") {
                true => assert_eq!(error, None),
                false => {
                    let said = error.map(|error| error.to_string()).unwrap_or_default();
                    assert!(said.starts_with(&format!("no {format} can be written")), "{said}");
                    assert!(said.contains("the feature `trace-formats`"), "{said}");
                }
            }
        }
    }

    #[test]
    fn json_is_written_unless_something_else_is_said() {
        let formats = |profiler: &TensorProfiler| -> Vec<TraceFormat> {
            profiler.settings.export.formats.each().collect()
        };
        assert_eq!(formats(&TensorProfiler::new()), [TraceFormat::Json]);
        let twice = TensorProfiler::new().trace_formats([TraceFormat::Json; 2]).expect("built");
        assert_eq!(formats(&twice), [TraceFormat::Json]);
        assert_eq!(formats(&twice.trace_formats([]).expect("none")), []);
    }
}
