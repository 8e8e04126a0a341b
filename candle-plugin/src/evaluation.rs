//! Counts outputs for which candle keeps the computation graph during an evaluation.

use candle_core::{Result, Tensor};
use mlprof_core::Evaluation;
use mlprof_core::hook::EvaluatedOutputsCounter;

/// Counter over all profiled layers.
pub(crate) static OUTPUTS: EvaluatedOutputsCounter = EvaluatedOutputsCounter::new();

/// Counts a layer's output if it has a computation graph. *Cost* outside evaluations: one
/// thread-local read.
#[inline]
pub(crate) fn count(output: &Result<Tensor>) {
    if Evaluation::is_running()
        && let Ok(output) = output
    {
        OUTPUTS.count(output.track_op());
    }
}
