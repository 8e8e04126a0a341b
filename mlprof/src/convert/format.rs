//! Output formats, and which of them each kind of result supports.

/// Output format of `mlprof convert`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, clap::ValueEnum)]
#[non_exhaustive]
pub enum Format {
    /// Chrome trace events, for Perfetto and chrome://tracing
    Chrome,
    /// Folded stacks for flame graph tools: outermost;…;innermost and microseconds or bytes
    Folded,
    /// Flame graph as an SVG file, for a browser
    Svg,
    /// One file per action in the format of Python's cProfile, for pstats, snakeviz and gprof2dot
    Prof,
    /// JSON for speedscope.app
    Speedscope,
    /// Content of FILE as uncompressed JSON
    Json,
    /// Perfetto's binary format: smaller than JSON, faster to load, and keeps overlapping slices
    Pftrace,
    /// XSpace, for XProf and TensorBoard's Profile page: steps, input, ops, kernels and memory
    Xplane,
    /// Folder of Parquet tables, for DuckDB, Spark and polars; mlprof schema prints the columns
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
