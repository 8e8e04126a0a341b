//! Bytes of the ops of candle and burn.

use super::super::convolution::OPTIONS;
use super::super::inputs::Inputs;
use super::layers::{concatenation, gather, loss, moves, picked_loss, reduction, select};
use super::products::{
    attention, embedding, linear, linear_weight_gradient, plain, product, transposed,
};
use super::tensor::{Output, Tensor, all, elementwise, sum};
use crate::{DType, TensorShape};

pub(super) fn of_candle(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    let is_view = matches!(
        op,
        "transpose"
            | "t"
            | "permute"
            | "narrow"
            | "unsqueeze"
            | "squeeze"
            | "get"
            | "chunk"
            | "broadcast_as"
            | "broadcast_left"
            | "expand"
            | "detach"
            | "get_on_dim"
    );
    if is_view {
        return Some(0);
    }
    let plain_name = op.strip_prefix("broadcast_").unwrap_or(op);
    match plain_name {
        "maximum" | "minimum" | "pow" => {
            return elementwise(&inputs.tensors(2), Output::Promoted);
        }
        // Comparisons return bytes.
        "eq" | "ne" | "lt" | "le" | "gt" | "ge" | "cmp" => {
            return elementwise(&inputs.tensors(2), Output::Flags);
        }
        _ => {}
    }
    match op {
        "affine" | "sqr" | "gelu_erf" | "dropout" | "copy" | "force_contiguous"
        | "hard_sigmoid" | "softmax_last_dim" | "to_vec1" | "to_vec2" | "to_vec3"
        | "zeros_like" | "ones_like" => {
            let input = inputs.tensor(0)?.bytes()?;
            let is_filled = op.ends_with("_like");
            if is_filled { Some(input) } else { input.checked_mul(2) }
        }
        "to_scalar" | "to_vec0" => inputs.tensor(0)?.element(),
        "where_cond" => {
            let output = inputs.tensor(1)?;
            sum([all(inputs.tensors(3)), output.bytes()])
        }
        "conv1d" | "conv2d" => plain(inputs, OPTIONS, None),
        "conv_transpose1d" => transposed(inputs, 6, inputs.integers(7)?.first().copied()?),
        "conv_transpose2d" => transposed(inputs, 6, 1),
        "layer_norm" => moves(inputs, &[0, 1, 2], &[0]),
        "rms_norm" => moves(inputs, &[0, 1], &[0]),
        "rope" | "rope_i" | "rope_thd" => moves(inputs, &[0, 1, 2], &[0]),
        "nll" => picked_loss(inputs),
        "mse" => loss(inputs, 2),
        // The target is the class of each row.
        "cross_entropy" => loss(inputs, 2),
        "index_select" => select(inputs.tensor(0)?, None, inputs.tensor(1)?),
        "scatter_add" | "index_add" => moves(inputs, &[0, 1, 2], &[0]),
        "sum_all" | "mean_all" | "max_all" | "min_all" | "sum_keepdim" | "mean_keepdim"
        | "max_keepdim" | "min_keepdim" | "argmax_keepdim" | "argmin_keepdim" | "var"
        | "var_keepdim" | "logsumexp" | "log_sum_exp" | "norm" => reduction(inputs),
        _ => of_both(plain_name, inputs),
    }
}

pub(super) fn of_burn(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    // The size of a boolean depends on the backend.
    let is_flag =
        |input: &TensorShape| Tensor::of(input).is_some_and(|tensor| tensor.dtype == DType::Bool);
    if inputs.0.iter().any(is_flag) {
        return None;
    }
    if matches!(op, "swap_dims" | "permute" | "expand" | "empty") {
        return Some(0);
    }
    if let Some(op) = op.strip_suffix("_scalar") {
        let is_known = matches!(op, "add" | "sub" | "mul" | "div" | "remainder" | "powf" | "powi");
        return is_known.then(|| inputs.tensor(0)?.bytes()?.checked_mul(2)).flatten();
    }
    match op {
        "powf"
        | "powi"
        | "remainder"
        | "atan2"
        | "prelu"
        | "relu_backward"
        | "gelu_backward"
        | "sigmoid_backward"
        | "log_sigmoid_backward" => elementwise(&inputs.tensors(2), Output::Promoted),
        "clamp_min" | "clamp_max" | "leaky_relu" | "log_sigmoid" | "hard_sigmoid" | "softmin"
        | "cumprod" | "cummin" | "cummax" | "flip" | "trunc" | "tan" | "sinh" | "cosh" | "sort" => {
            inputs.tensor(0)?.bytes()?.checked_mul(2)
        }
        "linear_x_backward" => linear(Inputs(inputs.0.get(..2)?), 1, 0),
        "linear_weight_backward" => linear_weight_gradient(inputs),
        "linear_bias_backward" => {
            let gradient = inputs.tensor(0)?;
            sum([gradient.bytes(), gradient.sized(gradient.dimensions.last())])
        }
        "conv1d" | "conv2d" | "conv3d" => plain(inputs, OPTIONS, inputs.tensor(2)),
        "conv_transpose1d" | "conv_transpose2d" | "conv_transpose3d" => {
            transposed(inputs, 6, inputs.integers(7)?.first().copied()?)
        }
        // Convolutions' gradients take the input, the weight and the gradient of the output.
        "conv1d_x_backward" | "conv2d_x_backward" | "conv3d_x_backward" => {
            moves(inputs, &[1, 2], &[0])
        }
        "conv1d_weight_backward"
        | "conv2d_weight_backward"
        | "conv3d_weight_backward"
        | "conv_transpose1d_weight_backward"
        | "conv_transpose2d_weight_backward"
        | "conv_transpose3d_weight_backward" => moves(inputs, &[0, 2], &[1]),
        "embedding_backward" => moves(inputs, &[1, 2], &[0]),
        "select" => select(inputs.tensor(0)?, None, inputs.tensor(1)?),
        "layer_norm" => moves(inputs, &[0, 1, 2], &[0]),
        "avg_pool1d_backward"
        | "avg_pool2d_backward"
        | "adaptive_avg_pool1d_backward"
        | "adaptive_avg_pool2d_backward" => moves(inputs, &[1], &[0]),
        "max_pool1d_with_indices_backward" | "max_pool2d_with_indices_backward" => {
            moves(inputs, &[1, 2], &[0])
        }
        "sum_dim" | "sum_dims" | "mean_dim" | "prod_dim" | "max_dim" | "min_dim" | "max_abs"
        | "max_abs_dim" | "prod" => reduction(inputs),
        _ => of_both(op, inputs),
    }
}

/// Returns the bytes of ops with the same name and meaning in both frameworks.
fn of_both(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    match op {
        "add" | "sub" | "mul" | "div" => elementwise(&inputs.tensors(2), Output::Promoted),
        "exp" | "log" | "log1p" | "sin" | "cos" | "tanh" | "abs" | "neg" | "recip" | "sqrt"
        | "gelu" | "erf" | "relu" | "silu" | "sigmoid" | "floor" | "ceil" | "round" | "sign"
        | "powf" | "elu" | "clamp" | "softmax" | "log_softmax" | "cumsum" => {
            inputs.tensor(0)?.bytes()?.checked_mul(2)
        }
        "sum" | "mean" | "max" | "min" | "argmax" | "argmin" => reduction(inputs),
        "matmul" => product(inputs, 0, 1),
        "linear" => linear(inputs, 0, 1),
        "attention" | "scaled_dot_product_attention" => attention(inputs),
        "embedding" => embedding(inputs.tensor(0)?, inputs.tensor(1)?),
        "gather" => gather(inputs.tensor(0)?, inputs.tensor(1)?),
        "cat" | "stack" => concatenation(inputs),
        _ => None,
    }
}
