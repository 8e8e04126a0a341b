//! Implementation of the `mlprof` command.

// Messages go through `output::say`, because `eprintln!` panics if standard error is full or
// closed.
#![deny(clippy::print_stderr, clippy::print_stdout)]

pub mod analyze;
pub mod command;
pub mod compare_numerics;
pub mod convert;
pub mod diff;
mod exit_code;
pub mod live;
pub mod machine;
pub mod merge;
pub mod report;
pub mod roofline;
pub mod run;
pub mod runtime;
mod say;
pub mod sql;
pub mod tables;
mod traces;
pub mod what_if;
pub mod wrapper;
