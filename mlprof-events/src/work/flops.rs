//! Number of floating-point operations of an op, computed from the shapes of its inputs.

use super::convolution::{
    Convolution, OPTIONS, OPTIONS_OF_CUDNN, OPTIONS_OF_MIOPEN, OPTIONS_OF_SLOW,
};
use super::inputs::{Inputs, multiply};
use crate::TensorShape;

/// Returns the floating-point operations of one call of an op. A multiplication and an addition
/// count as two, as in torch's `FlopCounterMode`. Returns `None` if the op is unknown or its inputs
/// are insufficient.
///
/// The following ops are counted:
///
/// * matrix products: `mm`, `addmm`, `bmm`, `baddbmm`, `mv` and similar ops, and `matmul` and
///   `linear` of other frameworks;
/// * convolutions of any number of dimensions, transposed, grouped or dilated, and their gradients:
///   `convolution`, `convolution_backward`, `conv2d`, …, and the library ops that they call;
/// * fused scaled dot product attention and its gradient. If the sequences have different lengths,
///   each counts with the maximum length.
/// * recurrent layers that are a single op: `mkldnn_rnn_layer`, `_cudnn_rnn`, `miopen_rnn`,
///   `_lstm_mps`, and the gradients of the first three. In each step each row of the batch is
///   multiplied with each weight matrix, so a layer of `gates` gates takes `2 × steps × batch ×
///   gates × hidden × (inputs + hidden)` operations. The gradient takes twice as many, for the
///   inputs and for the weights.
///
///   Elementwise operations are not counted. `_thnn_fused_lstm_cell` therefore has no count: the
///   products of its gates are separate ops. Recurrent layers of candle and burn consist of
///   products, which are counted.
///
/// Among torch's ops that call each other, only **one level** counts:
///
/// - `aten::addmm`, but not the enclosing `aten::linear`
/// - `aten::convolution`, but neither the enclosing `aten::conv2d` nor the inner
///   `aten::_convolution` (which counts if a traced module calls it directly)
/// - the fused attention, but not the `aten::bmm` calls of its composite form
/// - for `aten::lstm`, `aten::gru` and `aten::lstm_cell`, the inner fused layers or products
///
/// In tables, an op inside another counted op has no operations of its own, so that sums are also
/// correct for other frameworks.
///
/// There are three differences from torch:
///
/// - Recurrent layers are counted.
/// - The weight gradient of a grouped convolution is divided by the number of groups, which torch
///   omits.
/// - If a `convolution_backward` does not state which gradients it computes, the gradients of the
///   input and of the weight are assumed.
///
/// ```
/// use mlprof_core::hook::{DType, TensorShape};
/// use mlprof_core::tensor::flops;
///
/// let matrix = |rows, columns| TensorShape::Tensor(DType::Float32, vec![rows, columns]);
/// assert_eq!(flops("aten::mm", &[matrix(2, 3), matrix(3, 5)]), Some(2 * 2 * 3 * 5));
/// assert_eq!(flops("aten::relu", &[matrix(2, 3)]), None);
/// ```
pub fn flops(name: &str, inputs: &[TensorShape]) -> Option<u64> {
    let inputs = Inputs(inputs);
    match name.strip_prefix("aten::") {
        Some(op) => of_aten(op, inputs),
        None => of_others(name.rsplit("::").next().unwrap_or(name), inputs),
    }
}

fn of_aten(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    let op = op.strip_suffix("_out").unwrap_or(op);
    match op.trim_end_matches('_') {
        "mm" | "bmm" | "mv" | "dot" | "vdot" | "_scaled_mm" | "_int_mm" => inputs.product(0, 1),
        "addmm" | "baddbmm" | "addbmm" | "addmv" | "_addmm_activation" => inputs.product(1, 2),
        "convolution" | "convolution_overrideable" | "_convolution" => {
            Convolution::forward(inputs)?.flops()
        }
        // `convolution` calls these ops on a device and has no operations of its own.
        "cudnn_convolution" => Convolution::with_options(inputs, OPTIONS_OF_CUDNN, None)?.flops(),
        "miopen_convolution" => Convolution::with_options(inputs, OPTIONS_OF_MIOPEN, None)?.flops(),
        "_slow_conv2d_forward" => Convolution::with_options(inputs, OPTIONS_OF_SLOW, None)?.flops(),
        "_flash_attention_forward" => Attention::of(inputs, 3)?.flops(),
        "_efficient_attention_forward" => Attention::of(inputs, 4)?.flops(),
        "_flash_attention_backward" | "_efficient_attention_backward" => {
            Attention::of(Inputs(inputs.0.get(1..)?), 5)?.backward_flops()
        }
        "convolution_backward" | "convolution_backward_overrideable" => {
            let masks = inputs.integers(10);
            let gradients =
                masks.map_or(2, |mask| mask.iter().take(2).filter(|one| **one != 0).count());
            Convolution::backward(inputs)?.flops()?.checked_mul(gradients as u64)
        }
        // The numbers are the positions of the input, of its weight matrix, and of the weight
        // matrix for the previous state.
        "mkldnn_rnn_layer" => inputs.recurrent_layer(&[1, 2]),
        "mkldnn_rnn_layer_backward" => inputs.recurrent_layer(&[1, 2])?.checked_mul(2),
        "_cudnn_rnn" | "miopen_rnn" => inputs.recurrent_layer(&[1]),
        "_cudnn_rnn_backward" | "miopen_rnn_backward" => {
            inputs.recurrent_layer(&[1])?.checked_mul(2)
        }
        "_lstm_mps" => inputs.recurrent_layer(&[2]),
        op => {
            let attention = op.strip_prefix("_scaled_dot_product_")?;
            let attention = attention.replace("_for_cpu", "");
            match attention.as_str() {
                "flash_attention"
                | "efficient_attention"
                | "cudnn_attention"
                | "fused_attention_overrideable" => inputs.attention()?.flops(),
                "flash_attention_backward"
                | "efficient_attention_backward"
                | "cudnn_attention_backward"
                // The gradient of the output is the first input.
                | "fused_attention_overrideable_backward" => {
                    Inputs(inputs.0.get(1..)?).attention()?.backward_flops()
                }
                _ => None,
            }
        }
    }
}

/// Returns the operations of an op of another framework. The ops of these frameworks do not call
/// each other under other names.
fn of_others(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    match op {
        "matmul" | "mm" | "bmm" => return inputs.product(0, 1),
        "linear" => return inputs.linear(0, 1),
        "linear_x_backward" => return inputs.linear(1, 0),
        "linear_weight_backward" => return inputs.outer_product(),
        "attention" | "scaled_dot_product_attention" => return inputs.attention()?.flops(),
        _ => {}
    }
    let op = op.replace('_', "");
    let is_transposed = op.contains("transpose");
    if !op.starts_with("conv") {
        return None;
    }
    if op.ends_with("xbackward") || op.ends_with("weightbackward") {
        let (dense, output) = (inputs.dimensions(1)?, inputs.dimensions(2)?);
        let dots = if is_transposed { inputs.dimensions(0)? } else { output };
        return Convolution { dots: dots.get(2..)?.to_vec(), batch: *dots.first()?, weight: dense }
            .flops();
    }
    if op.ends_with("backward") {
        return None;
    }
    let is_convolution = ["conv1d", "conv2d", "conv3d"].contains(&op.as_str()) || is_transposed;
    is_convolution
        .then(|| Convolution::with_options(inputs, OPTIONS, Some(is_transposed)))
        .flatten()?
        .flops()
}

impl<'op> Inputs<'op> {
    /// Returns the operations of a matrix product of two tensors of any rank. Dimensions before the
    /// last two are broadcast.
    fn product(self, left: usize, right: usize) -> Option<u64> {
        let (left, right) = (self.dimensions(left)?, self.dimensions(right)?);
        let (rows_before, inner) = match left {
            [] => return None,
            [inner] => (&[][..], *inner),
            [before @ .., rows, inner] => {
                return product_of_matrices(before, *rows, *inner, right);
            }
        };
        product_of_matrices(rows_before, 1, inner, right)
    }

    /// Returns the operations for an input and a weight. The weight's rows may be the outputs or
    /// the inputs.
    fn linear(self, input: usize, weight: usize) -> Option<u64> {
        let (input, weight) = (self.dimensions(input)?, self.dimensions(weight)?);
        let (inner, before) = input.split_last()?;
        let [one, other] = weight else { return None };
        if one != inner && other != inner {
            return None;
        }
        multiply(before.iter().chain([one, other, &2]))
    }

    /// Returns the operations for an input and the gradient of the output: the product of all rows
    /// of one with all rows of the other.
    fn outer_product(self) -> Option<u64> {
        let (rows, columns) = (self.dimensions(0)?, self.dimensions(1)?.last()?);
        multiply(rows.iter().chain([columns, &2]))
    }

    /// Returns the operations of a recurrent layer: every input row of all steps with every weight
    /// matrix at these positions, alone or in lists. Other tensors in a list are biases, which are
    /// vectors. A packed sequence has one row per existing step.
    fn recurrent_layer(self, weights: &[usize]) -> Option<u64> {
        let (_, rows) = self.dimensions(0)?.split_last()?;
        let rows = multiply(rows)?;
        let mut sizes = 0_u64;
        for place in weights {
            let one = self.0.get(*place)?;
            let tensors = match one {
                TensorShape::List(tensors) => &tensors[..],
                _ => std::slice::from_ref(one),
            };
            for tensor in tensors {
                if let TensorShape::Tensor(_, size) = tensor
                    && size.len() == 2
                {
                    sizes = sizes.checked_add(multiply(size)?)?;
                }
            }
        }
        if sizes == 0 {
            return None;
        }
        rows.checked_mul(sizes)?.checked_mul(2)
    }

    /// Returns the sizes of queries, keys and values: `[batch, heads, length, dimension]`.
    fn attention(self) -> Option<Attention> {
        let [batch, heads, queries, dimension] = *self.dimensions(0)? else { return None };
        let keys = *self.dimensions(1)?.get(2)?;
        let values = *self.dimensions(2)?.get(3)?;
        Some(Attention { batch, heads, queries, keys, dimension, values })
    }
}

fn product_of_matrices(before: &[i64], rows: i64, inner: i64, right: &[i64]) -> Option<u64> {
    let (right_before, right_inner, columns) = match right {
        [] => return None,
        [inner] => (&[][..], *inner, 1),
        [before @ .., inner, columns] => (before, *inner, *columns),
    };
    if inner != right_inner {
        return None;
    }
    let ranks = before.len().max(right_before.len());
    let size = |sizes: &[i64], place: usize| {
        let index = (sizes.len() + place).checked_sub(ranks);
        index.and_then(|index| sizes.get(index)).copied().unwrap_or(1)
    };
    let batches: Vec<i64> = (0..ranks)
        .map(|place| match (size(before, place), size(right_before, place)) {
            (1, size) => size,
            (size, _) => size,
        })
        .collect();
    multiply(batches.iter().chain([&rows, &inner, &columns, &2]))
}

/// Sizes of an attention op. Its tensors are `[batch, length, heads, dimension]`, or `[all lengths,
/// heads, dimension]` for sequences of different lengths.
struct Attention {
    batch: i64,
    heads: i64,
    queries: i64,
    keys: i64,
    dimension: i64,
    values: i64,
}

impl Attention {
    /// Reads the sizes from the inputs, which begin with queries, keys and values. If the sequences
    /// have different lengths, four more inputs follow from position `offsets` on. They are the
    /// offsets of the queries and of the keys, and the maximum length of each. A trace does not
    /// contain the individual lengths, so each sequence counts with the maximum.
    fn of(inputs: Inputs<'_>, offsets: usize) -> Option<Self> {
        let [query, key, value] = [0, 1, 2].map(|place| inputs.dimensions(place));
        let (query, key, value) = (query?, key?, value?);
        let [.., heads, dimension] = query else { return None };
        let one = |place: usize| inputs.integers(place)?.first().copied();
        let is_several = matches!(inputs.dimensions(offsets), Some([_]));
        let (batch, queries, keys) = match is_several {
            true => {
                let sequences = inputs.dimensions(offsets)?.first()?.checked_sub(1)?;
                (sequences, one(offsets + 2)?, one(offsets + 3)?)
            }
            false => {
                let ([batch, queries, ..], [_, keys, ..]) = (query, key) else { return None };
                (*batch, *queries, *keys)
            }
        };
        // All tensors have the same rank: 4 for separate sequences, or 3 for concatenated ones.
        let is_known = query.len() == 4 || (is_several && query.len() == 3);
        let (heads, dimension, values) = (*heads, *dimension, *value.last()?);
        let of = Self { batch, heads, queries, keys, dimension, values };
        (is_known && key.len() == query.len()).then_some(of)
    }

    fn flops(&self) -> Option<u64> {
        let Self { batch, heads, queries, keys, dimension, values } = self;
        let scores = multiply([batch, heads, queries, dimension, keys, &2])?;
        scores.checked_add(multiply([batch, heads, queries, keys, values, &2])?)
    }

    /// Returns the operations of the gradient, which computes the scores once more.
    fn backward_flops(&self) -> Option<u64> {
        let Self { batch, heads, queries, keys, dimension, values } = self;
        let by_keys = multiply([batch, heads, queries, keys, dimension, &2])?.checked_mul(3)?;
        let by_values = multiply([batch, heads, queries, keys, values, &2])?.checked_mul(2)?;
        by_keys.checked_add(by_values)
    }
}
