//! Detection of forward ops that run again within backward (activation checkpointing).

use crate::trace::{Category, FlowKind, Slice, Trace};

/// Name prefix of the op in which autograd runs one backward function.
const BACKWARD: &str = "autograd::engine::evaluate_function";
/// Name of the backward function that runs a checkpointed forward again.
const CHECKPOINT: &str = "CheckpointFunctionBackward";
/// Path of PyTorch's checkpointing module in the names of Python functions.
const CHECKPOINT_FILE: &str = "torch/utils/checkpoint.py";

/// Position of a slice relative to the backward pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Forward,
    Backward,
    Recomputed,
}

/// Returns for each slice whether it belongs to a forward op that backward runs again.
///
/// Three things identify such an op within a backward function:
///
/// - a frame of `torch/utils/checkpoint.py` around it
/// - the name of the backward function
/// - its sequence number, because PyTorch numbers only ops whose gradients it records, and it
///   records none in backward
///
/// Ops of a second derivative (`create_graph`) also have numbers, so they are counted as
/// recomputed.
pub(crate) fn of(trace: &Trace) -> Vec<bool> {
    let begins_backward = trace.names.map(|name| name.starts_with(BACKWARD));
    let runs_again =
        trace.names.map(|name| name.contains(CHECKPOINT) || name.contains(CHECKPOINT_FILE));
    let of_autograd =
        trace.names.map(|name| name.starts_with("autograd::") || name.contains("Backward"));
    let mut is_target = vec![false; trace.slices.len()];
    for flow in trace.flows.iter().filter(|flow| flow.kind == FlowKind::ForwardBackward) {
        is_target[flow.to as usize] = true;
    }
    let is_numbered =
        |slice: &Slice| trace.details(slice).is_some_and(|details| details.sequence != 0);
    let mut phases = vec![Phase::Forward; trace.slices.len()];
    for place in trace.parents_first() {
        let slice = &trace.slices[place];
        let around = slice.parent().map_or(Phase::Forward, |around| phases[around]);
        let is_op = slice.category == Category::CpuOp;
        phases[place] = match around {
            // PyTorch's older, reentrant checkpointing runs backward functions within the
            // checkpoint's own backward function.
            _ if (is_op && begins_backward[slice.name]) || is_target[place] => {
                if runs_again[slice.name] { Phase::Recomputed } else { Phase::Backward }
            }
            Phase::Backward if runs_again[slice.name] => Phase::Recomputed,
            Phase::Backward if is_op && is_numbered(slice) && !of_autograd[slice.name] => {
                Phase::Recomputed
            }
            around => around,
        };
    }
    phases.into_iter().map(|phase| phase == Phase::Recomputed).collect()
}
