//! Tests `mlprof report` and `mlprof convert` with results from real profilers.

mod comparison;
mod convert;
mod errors;
mod findings;
mod help;
mod kinds;
mod report;
mod runs;
mod schema;
mod traces;
