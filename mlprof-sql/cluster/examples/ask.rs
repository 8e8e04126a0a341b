//! The program `mlprof-sql` with cluster support: `cargo run --example ask -- FOLDER straggler
//! --cluster df://localhost`.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    mlprof_sql::answer(&mlprof_sql::Arguments::parse())
}
