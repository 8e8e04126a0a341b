//! Where threads are, sampled: while something is recorded, or once. The sampler is there for that long, and not before or
//! afterwards.

use mlprof_core::{Report, RunContext};
use mlprof_events::live::{RecordRequest, ThreadStack};
use mlprof_sampler::{Sampler, SamplerError};

/// Whether threads can be sampled as it is asked for.
///
/// # Errors
///
/// Why not, in words.
pub(crate) fn check(wishes: &RecordRequest) -> Result<(), String> {
    wishes.sample.map_or(Ok(()), |hz| Sampler::can_start(hz).map_err(|error| told(&error)))
}

/// Begins to sample, if that is asked for.
///
/// # Errors
///
/// Why not, in words.
pub(crate) fn begin(wishes: &RecordRequest) -> Result<Option<Sampler>, String> {
    let begun = wishes.sample.map(Sampler::start).transpose();
    begun.map_err(|error| told(&error))
}

/// Ends it: the report, as JSON. *Cost*: debug information is read, by the calling thread.
///
/// # Errors
///
/// Why it cannot be written, in words.
pub(crate) fn end(sampler: Sampler, run: &RunContext) -> Result<String, String> {
    let report = Report::Samples(sampler.end(run));
    report.to_json().map_err(|error| format!("the samples cannot be written: {error}"))
}

/// Where every thread is now. *Cost*: debug information is read, by the calling thread.
///
/// # Errors
///
/// Why that cannot be said, in words.
pub(crate) fn stacks() -> Result<Vec<ThreadStack>, String> {
    Sampler::stacks().map_err(|error| told(&error))
}

fn told(error: &SamplerError) -> String {
    let what_to_do = match error {
        SamplerError::NotBuilt => "; turn on the feature `sampling` of the program's mlprof plugin",
        _ => "",
    };
    format!("threads cannot be sampled: {error:?}{what_to_do}")
}
