//! Samples the stacks of threads, either during a recording or once. The sampler exists only for
//! that time.

use mlprof_core::{Report, RunContext};
use mlprof_events::live::{RecordRequest, ThreadStack};
use mlprof_sampler::{Sampler, SamplerError};

/// Checks that threads can be sampled as requested.
///
/// # Errors
///
/// Returns an error message if sampling is not possible.
pub(crate) fn check(wishes: &RecordRequest) -> Result<(), String> {
    wishes.sample.map_or(Ok(()), |hz| Sampler::can_start(hz).map_err(|error| error_message(&error)))
}

/// Starts the sampler if the request includes samples.
///
/// # Errors
///
/// Returns an error message if sampling is not possible.
pub(crate) fn begin(wishes: &RecordRequest) -> Result<Option<Sampler>, String> {
    let begun = wishes.sample.map(Sampler::start).transpose();
    begun.map_err(|error| error_message(&error))
}

/// Stops the sampler and returns the report as JSON. *Cost*: the calling thread reads debug
/// information.
///
/// # Errors
///
/// Returns an error message if the report cannot be serialised.
pub(crate) fn end(sampler: Sampler, run: &RunContext) -> Result<String, String> {
    let report = Report::Samples(sampler.end(run));
    report.to_json().map_err(|error| format!("cannot write the samples: {error}"))
}

/// Returns the current stacks of all threads. *Cost*: the calling thread reads debug information.
///
/// # Errors
///
/// Returns an error message if sampling is not possible.
pub(crate) fn stacks() -> Result<Vec<ThreadStack>, String> {
    Sampler::stacks().map_err(|error| error_message(&error))
}

fn error_message(error: &SamplerError) -> String {
    let what_to_do = match error {
        SamplerError::NotBuilt => "; turn on the feature `sampling` of the program's mlprof plugin",
        _ => "",
    };
    format!("{error:?}{what_to_do}")
}
