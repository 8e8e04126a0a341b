//! Operations that candle records for a backward pass while a network is evaluated.

use candle_core::Tensor;
use mlprof_core::Evaluation;
use mlprof_core::hook::EvaluatedOutputsCounter;

/// Outputs of all profiled layers.
pub(crate) static OUTPUTS: EvaluatedOutputsCounter = EvaluatedOutputsCounter::new();

/// Counts the output of a layer. *Cost* outside of evaluations: a thread-local read.
#[inline]
pub(crate) fn count(output: &Tensor) {
    if Evaluation::is_running() {
        OUTPUTS.count(output.track_op());
    }
}
