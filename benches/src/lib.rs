//! Benchmarks of mlprof and other profilers.
//!
//! These programs measure or test mlprof:
//!
//! - `scopes` measures the time of one scope; see [`harness`] for the method and [`subjects`] for
//!   the profilers.
//! - `memory` checks that a profiler's memory does not depend on the number of calls.
//! - `tensor` measures the cost of ten million ops.
//! - `allocations` measures the cost of counting an allocation.
//! - `sampler` measures the cost of one stack sample.
//! - `watched` measures the cost of monitoring per step.
//! - `torture` stress-tests the profilers and measures nothing.
//! - `verdicts` measures the false positive rate of comparisons of equal runs.

pub mod budget;
pub mod conditions;
pub mod harness;
pub mod results;
pub mod subjects;

use std::process::ExitCode;

/// Returns the parsed settings of a program. If help was requested (`None`) or the arguments are
/// invalid, prints `usage` and returns the exit code as an error.
pub fn settings<T>(asked: Result<Option<T>, lexopt::Error>, usage: &str) -> Result<T, ExitCode> {
    match asked {
        Ok(Some(settings)) => Ok(settings),
        Ok(None) => {
            print!("{usage}");
            Err(ExitCode::SUCCESS)
        }
        Err(error) => {
            eprintln!("error: {error}\n\n{usage}");
            Err(ExitCode::from(2))
        }
    }
}

/// Parses a list of thread counts such as `1,2,8`.
///
/// # Errors
///
/// Returns an error if the list contains 0 or anything other than numbers.
pub fn thread_counts(list: &str) -> Result<Vec<usize>, String> {
    let counts: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
    counts
        .ok()
        .filter(|counts| counts.iter().all(|count| *count > 0))
        .ok_or_else(|| format!("--threads {list}: expected numbers such as 1,2,8"))
}
