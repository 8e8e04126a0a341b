//! The program `mlprof-sql`, which `mlprof sql` starts.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    mlprof_sql::answer(&mlprof_sql::Arguments::parse())
}
