//! Checks mlprof's measurements on an NVIDIA GPU: `cargo xtask gpu-check`.
//!
//! The checks run in sequence, and a table at the end shows each measurement, its limit and the
//! verdict. The profilers' results are compared with other measurements of the same work: burn's
//! own, CUDA events, HolisticTraceAnalysis and torch's profiler.

#![cfg_attr(not(feature = "burn"), allow(dead_code, reason = "used only by the burn checks"))]

mod checks;
mod command_line;
mod gpu;
mod machine;
#[cfg(feature = "burn")]
mod network;
mod options;
mod outcome;
mod pairs;
mod python;
mod recording;
mod statistics;
mod table;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;

use checks::{CHECKS, Check, Shared};
use command_line::Request;
use options::Options;
use outcome::Row;

/// Exit status without a GPU, or after an invalid command line.
const NOTHING_TO_CHECK: u8 = 2;

fn main() -> ExitCode {
    let options = match command_line::parse() {
        Ok(Request::Checks(options)) => options,
        Ok(Request::Help) => {
            print!("{}", command_line::usage());
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{}", command_line::usage());
            return ExitCode::from(NOTHING_TO_CHECK);
        }
    };
    if let Err(why) = gpu::is_there() {
        eprintln!("error: cannot find an NVIDIA GPU: {why}");
        return ExitCode::from(NOTHING_TO_CHECK);
    }
    if options.only_looks {
        return ExitCode::SUCCESS;
    }
    let mut shared = Shared::default();
    let rows: Vec<Row> = CHECKS
        .iter()
        .filter(|check| options.wants(check.name))
        .flat_map(|check| run(check, &options, &mut shared))
        .collect();
    print!("\n{}", table::paint(&rows));
    if rows.iter().any(Row::has_failed) { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Runs one check. A failure or panic in it does not stop the other checks.
fn run(check: &Check, options: &Options, shared: &mut Shared) -> Vec<Row> {
    eprintln!("{} …", check.name);
    let result = catch_unwind(AssertUnwindSafe(|| (check.run)(options, shared)));
    match result {
        Ok(Ok(rows)) => rows,
        Ok(Err(why)) => vec![Row::failed(check.name, why)],
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            let text = text.unwrap_or("no message");
            vec![Row::failed(check.name, format!("it panicked: {text}"))]
        }
    }
}
