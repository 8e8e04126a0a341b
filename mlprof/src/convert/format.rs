//! Output formats, and which of them each kind of result supports.

/// Output format of `mlprof convert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Format {
    /// Chrome's trace events, for Perfetto and chrome://tracing
    Chrome,
    /// Lines of outermost;…;innermost and microseconds, for flame graph tools
    Folded,
    /// A flame graph to open in a browser
    Svg,
    /// A file per action as Python's cProfile writes it, for pstats, snakeviz and gprof2dot
    Prof,
    /// For speedscope.app
    Speedscope,
    /// The same as indented JSON, not compressed
    Json,
    /// Perfetto's own format: smaller than JSON, read faster, and nothing is lost that crosses something
    Pftrace,
    /// XSpace, for XProf and TensorBoard's Profile page: steps, input pipeline, ops, kernels, memory
    Xplane,
    /// A folder of tables for DuckDB, Spark, polars, … (mlprof schema says what is in them)
    Parquet,
}

impl Format {
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Chrome => "chrome",
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Prof => "prof",
            Self::Speedscope => "speedscope",
            Self::Json => "json",
            Self::Pftrace => "pftrace",
            Self::Xplane => "xplane",
            Self::Parquet => "parquet",
        }
    }

    /// Returns the file extension of the format.
    pub(super) const fn ending(self) -> &'static str {
        match self {
            Self::Chrome => "pt.trace.json",
            Self::Folded => "folded",
            Self::Svg => "svg",
            Self::Prof => "prof",
            Self::Speedscope => "speedscope.json",
            Self::Json => "json",
            Self::Pftrace => "pftrace",
            Self::Xplane => "xplane.pb",
            Self::Parquet => "parquet",
        }
    }
}

pub(super) const OF_TRACES: [Format; 8] = [
    Format::Chrome,
    Format::Folded,
    Format::Svg,
    Format::Speedscope,
    Format::Json,
    Format::Pftrace,
    Format::Xplane,
    Format::Parquet,
];
pub(super) const OF_SUMS: [Format; 4] =
    [Format::Folded, Format::Svg, Format::Speedscope, Format::Json];
pub(super) const OF_CALL_TREES: [Format; 5] =
    [Format::Prof, Format::Folded, Format::Svg, Format::Speedscope, Format::Json];
