//! The program `mlprof-sql`, which `mlprof sql` runs.

// Where standard output or standard error is closed, `println!` panics.
#![deny(clippy::print_stderr, clippy::print_stdout)]

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;
use mlprof_sql::Arguments;

fn main() -> ExitCode {
    match mlprof_sql::run(&Arguments::parse()) {
        Ok(end) => end,
        Err(error) => {
            // Where standard error is closed there is nobody to tell.
            let _ = writeln!(std::io::stderr(), "error: {error}");
            ExitCode::from(2)
        }
    }
}
