//! What candle remembers for a backward pass while a network is evaluated.

use candle_core::{Result, Tensor};
use mlprof_core::Evaluation;
use mlprof_core::hook::EvaluatedOutputsCounter;

/// Of all profiled layers.
pub(crate) static OUTPUTS: EvaluatedOutputsCounter = EvaluatedOutputsCounter::new();

/// What a layer has returned. *Cost* outside of evaluations: a thread-local read.
#[inline]
pub(crate) fn count(output: &Result<Tensor>) {
    if Evaluation::is_running()
        && let Ok(output) = output
    {
        OUTPUTS.count(output.track_op());
    }
}
