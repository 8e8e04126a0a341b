//! Bytes of torch's ops.

use super::super::inputs::Inputs;
use super::layers::{
    concatenation, foreach, fused_optimizer, gather, loss, moves, picked_loss, reduction, select,
};
use super::products::{
    added_product, attention, attention_gradient, convolution, convolution_gradient, embedding,
    product,
};
use super::tensor::{Output, elementwise};

pub(super) fn bytes(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    let op = op.strip_suffix("_out").unwrap_or(op);
    if let Some(op) = op.strip_prefix("_foreach_") {
        return foreach(op, inputs);
    }
    // Names such as `__and__` also end in an underscore.
    let (base, is_in_place) = match op.strip_suffix('_') {
        Some(base) if !base.ends_with('_') => (base, true),
        _ => (op, false),
    };
    if is_view(base) {
        return Some(0);
    }
    if let Some((count, output)) = elementwise_kind(base) {
        if base == "where" && inputs.tensors(3).len() < 3 {
            // Without values, it returns positions.
            return None;
        }
        let output = if is_in_place { Output::InPlace } else { output };
        return elementwise(&inputs.tensors(count), output);
    }
    of_layer(base, inputs).or_else(|| of_memory(base, is_in_place, inputs))
}

/// Returns `true` for an op that moves no values: a view, or an allocation.
fn is_view(op: &str) -> bool {
    matches!(
        op,
        "view"
            | "as_strided"
            | "transpose"
            | "t"
            | "permute"
            | "expand"
            | "expand_as"
            | "select"
            | "slice"
            | "narrow"
            | "squeeze"
            | "unsqueeze"
            | "detach"
            | "alias"
            | "unbind"
            | "split"
            | "split_with_sizes"
            | "chunk"
            | "unfold"
            | "diagonal"
            | "movedim"
            | "_unsafe_view"
            | "_reshape_alias"
            | "view_as"
            | "view_as_real"
            | "view_as_complex"
            | "swapaxes"
            | "swapdims"
            | "mT"
            | "numpy_T"
            | "matrix_H"
            | "lift_fresh"
            | "set"
            | "resolve_conj"
            | "resolve_neg"
            | "real"
            | "empty"
            | "empty_like"
            | "empty_strided"
            | "new_empty"
            | "new_empty_strided"
            | "resize"
            | "requires_grad"
    )
}

/// Returns how many of the first inputs an elementwise op combines, and its output.
fn elementwise_kind(op: &str) -> Option<(usize, Output)> {
    Some(match op {
        "abs" | "neg" | "sign" | "sgn" | "relu" | "relu6" | "square" | "bitwise_not" | "flip"
        | "roll" | "tril" | "triu" | "nan_to_num" | "round" | "floor" | "ceil" | "trunc"
        | "hardtanh" | "clamp_min" | "clamp_max" | "threshold" => (1, Output::Promoted),
        "exp"
        | "exp2"
        | "expm1"
        | "log"
        | "log2"
        | "log10"
        | "log1p"
        | "sqrt"
        | "rsqrt"
        | "reciprocal"
        | "sin"
        | "cos"
        | "tan"
        | "asin"
        | "acos"
        | "atan"
        | "sinh"
        | "cosh"
        | "tanh"
        | "erf"
        | "erfc"
        | "erfinv"
        | "lgamma"
        | "digamma"
        | "sigmoid"
        | "gelu"
        | "silu"
        | "mish"
        | "elu"
        | "leaky_relu"
        | "softplus"
        | "hardswish"
        | "hardsigmoid"
        | "log_sigmoid_forward"
        | "frac"
        | "_softmax"
        | "_log_softmax"
        | "_safe_softmax"
        | "cumsum"
        | "cumprod"
        | "logcumsumexp" => (1, Output::Float),
        "isnan" | "isinf" | "isfinite" | "logical_not" => (1, Output::Flags),
        "add" | "sub" | "rsub" | "mul" | "multiply" | "maximum" | "minimum" | "fmax" | "fmin"
        | "pow" | "remainder" | "fmod" | "bitwise_and" | "bitwise_or" | "bitwise_xor"
        | "__and__" | "__or__" | "__xor__" => (2, Output::Promoted),
        "div" | "atan2" | "xlogy" | "copysign" | "hypot" | "logaddexp" | "_prelu_kernel" => {
            (2, Output::Float)
        }
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "logical_and" | "logical_or" | "logical_xor" => {
            (2, Output::Flags)
        }
        // The gradients of elementwise ops take the gradient of the output, and the input or the
        // output.
        "threshold_backward"
        | "gelu_backward"
        | "sigmoid_backward"
        | "tanh_backward"
        | "silu_backward"
        | "mish_backward"
        | "leaky_relu_backward"
        | "hardtanh_backward"
        | "softplus_backward"
        | "hardswish_backward"
        | "hardsigmoid_backward"
        | "native_dropout_backward"
        | "_softmax_backward_data"
        | "_log_softmax_backward_data" => (2, Output::Float),
        "elu_backward" => (6, Output::Float),
        "clamp" | "where" | "masked_fill" | "lerp" | "addcmul" | "addcdiv" => (3, Output::Promoted),
        "mse_loss_backward" | "smooth_l1_loss_backward" | "huber_loss_backward" => {
            (3, Output::Float)
        }
        _ => return None,
    })
}

/// Returns the bytes of layers, losses and optimizers.
fn of_layer(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    match op {
        "mm" | "bmm" | "mv" | "dot" | "vdot" => product(inputs, 0, 1),
        "addmm" | "baddbmm" | "addmv" | "_addmm_activation" => added_product(inputs),
        "convolution"
        | "convolution_overrideable"
        | "_convolution"
        | "cudnn_convolution"
        | "miopen_convolution"
        | "_slow_conv2d_forward" => convolution(op, inputs),
        "convolution_backward" | "convolution_backward_overrideable" => {
            convolution_gradient(inputs)
        }
        "_flash_attention_forward"
        | "_scaled_dot_product_flash_attention"
        | "_scaled_dot_product_efficient_attention"
        | "_scaled_dot_product_cudnn_attention"
        | "_efficient_attention_forward"
        | "_scaled_dot_product_fused_attention_overrideable" => attention(inputs),
        "_scaled_dot_product_flash_attention_for_cpu" => attention(Inputs(inputs.0.get(..3)?))?
            .checked_add(match inputs.tensor(5) {
                Some(mask) => mask.bytes()?,
                None => 0,
            }),
        "_scaled_dot_product_flash_attention_backward"
        | "_scaled_dot_product_flash_attention_for_cpu_backward"
        | "_scaled_dot_product_efficient_attention_backward"
        | "_scaled_dot_product_cudnn_attention_backward"
        | "_flash_attention_backward"
        | "_efficient_attention_backward" => attention_gradient(inputs),
        "native_layer_norm" => moves(inputs, &[0, 2, 3], &[0]),
        "_fused_rms_norm" => moves(inputs, &[0, 2], &[0]),
        "native_group_norm" => moves(inputs, &[0, 1, 2], &[0]),
        "native_batch_norm"
        | "_native_batch_norm_legit"
        | "_batch_norm_with_update"
        | "_batch_norm_no_update"
        | "cudnn_batch_norm"
        | "miopen_batch_norm" => moves(inputs, &[0, 1, 2, 3, 4], &[0]),
        "native_layer_norm_backward" => moves(inputs, &[0, 1, 3, 4, 5], &[1]),
        "native_group_norm_backward" => moves(inputs, &[0, 1, 2, 3, 4], &[1]),
        "native_batch_norm_backward" => moves(inputs, &[0, 1, 2, 5, 6], &[1]),
        "cudnn_batch_norm_backward" | "miopen_batch_norm_backward" => {
            moves(inputs, &[0, 1, 2, 5, 6], &[0])
        }
        // The mask has one byte per element.
        "native_dropout" => {
            let input = inputs.tensor(0)?;
            input.bytes()?.checked_mul(2)?.checked_add(input.elements()?)
        }
        "max_pool2d_with_indices_backward" => moves(inputs, &[0, 7], &[1]),
        "avg_pool2d_backward" | "_adaptive_avg_pool2d_backward" => moves(inputs, &[0], &[1]),
        "nll_loss_forward" | "nll_loss2d_forward" => picked_loss(inputs),
        "nll_loss_backward" | "nll_loss2d_backward" => moves(inputs, &[0, 2], &[1]),
        "mse_loss" | "smooth_l1_loss" | "huber_loss" => loss(inputs, 2),
        "binary_cross_entropy" => loss(inputs, 3),
        "binary_cross_entropy_backward" => moves(inputs, &[0, 1, 2, 3], &[1]),
        "sum" | "mean" | "max" | "min" | "amax" | "amin" | "aminmax" | "prod" | "any" | "all"
        | "std" | "var" | "std_mean" | "var_mean" | "norm" | "linalg_vector_norm" | "logsumexp"
        | "nansum" | "argmax" | "argmin" | "count_nonzero" => reduction(inputs),
        "_fused_adam" | "_fused_adamw" => fused_optimizer(inputs, Some(5)),
        "_fused_sgd" => fused_optimizer(inputs, None),
        _ => None,
    }
}

/// Returns the bytes of ops that move or fill values.
fn of_memory(op: &str, is_in_place: bool, inputs: Inputs<'_>) -> Option<u64> {
    match op {
        "copy" if is_in_place => moves(inputs, &[1], &[0]),
        "zero" | "fill" | "normal" | "uniform" | "random" | "bernoulli" | "exponential"
            if is_in_place =>
        {
            inputs.tensor(0)?.bytes()
        }
        "cat" | "stack" => concatenation(inputs),
        "embedding" => embedding(inputs.tensor(0)?, inputs.tensor(1)?),
        "gather" => gather(inputs.tensor(0)?, inputs.tensor(2)?),
        "index_select" => {
            let dimension = inputs.integers(1).and_then(|place| place.first()).copied();
            select(inputs.tensor(0)?, dimension, inputs.tensor(2)?)
        }
        "_local_scalar_dense" => inputs.tensor(0)?.element(),
        "sort" => {
            // The positions are 64-bit integers.
            let input = inputs.tensor(0)?;
            input.bytes()?.checked_mul(2)?.checked_add(input.elements()?.checked_mul(8)?)
        }
        _ => None,
    }
}
