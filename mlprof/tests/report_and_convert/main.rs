//! `mlprof report` and `mlprof convert` over results that real profilers wrote.

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
