//! What mlprof costs, beside its peers.
//!
//! `scopes` measures the time that one scope costs ([`harness`] has the method, [`subjects`] what is
//! compared), `memory` shows that a profiler's memory does not depend on the number of calls,
//! `tensor` what ten million ops cost, `allocations` what counting an allocation costs, `sampler`
//! what one stack sample costs, and `watched` what it costs a step to be looked into. `torture` measures nothing: it treats the profilers hard.
//! `verdicts` counts how often comparisons of equal runs say that something got slower.

pub mod budget;
pub mod conditions;
pub mod harness;
pub mod results;
pub mod subjects;

use std::process::ExitCode;

/// What a program was asked to do. Prints `usage` and gives the exit code if that was to help
/// (`None`), or could not be understood.
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

/// The numbers of a list such as `1,2,8`.
///
/// # Errors
///
/// A list with something else in it, or with 0.
pub fn thread_counts(list: &str) -> Result<Vec<usize>, String> {
    let counts: Result<Vec<usize>, _> = list.split(',').map(str::parse).collect();
    counts
        .ok()
        .filter(|counts| counts.iter().all(|count| *count > 0))
        .ok_or_else(|| format!("--threads {list}: expected numbers such as 1,2,8"))
}
