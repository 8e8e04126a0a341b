//! Least number of bytes that an op reads and writes, computed from the shapes and types of its
//! inputs.

mod aten;
mod layers;
mod others;
mod products;
mod tensor;
#[cfg(all(test, not(loom)))]
mod tests;

use super::inputs::Inputs;
use crate::TensorShape;

/// Returns the bytes that one call of an op must read and write at least. Each input is read once,
/// and each output is written once. Returns `None` if the op is unknown, or if its inputs do not
/// determine the outputs.
///
/// - An op in place writes its first input. A filling op only writes.
/// - A view, and an allocation without values, moves 0 bytes.
/// - A broadcast input counts with its own size, and the output with the common size. The strides
///   of an input are not used.
/// - A reduction counts its input and one element of the output, because hooks do not record the
///   reduced dimensions.
/// - An embedding reads one row per index, but at most the whole table.
/// - A convolution counts input, weight, bias and output. Its gradient counts the gradients that
///   the mask states, or those of input and weight.
/// - Attention counts queries, keys, values, a mask and the output, but not the scores.
/// - A normalisation counts its input, its parameters and the output, but no saved statistics.
/// - An optimizer's fused op counts all lists of tensors, and writes parameters and states.
///
/// Among torch's ops that call each other, only one level counts, as for
/// `flops`: `aten::addmm`, but not the enclosing `aten::linear`.
///
/// ```
/// use mlprof_core::hook::{DType, TensorShape};
/// use mlprof_core::tensor::bytes;
///
/// let matrix = |rows, columns| TensorShape::Tensor(DType::Float32, vec![rows, columns]);
/// assert_eq!(bytes("aten::mm", &[matrix(2, 3), matrix(3, 5)]), Some(4 * (2 * 3 + 3 * 5 + 2 * 5)));
/// assert_eq!(bytes("aten::relu_", &[matrix(2, 3)]), Some(2 * 4 * 2 * 3));
/// assert_eq!(bytes("aten::t", &[matrix(2, 3)]), Some(0));
/// assert_eq!(bytes("aten::nonzero", &[matrix(2, 3)]), None);
/// ```
pub fn bytes(name: &str, inputs: &[TensorShape]) -> Option<u64> {
    let inputs = Inputs(inputs);
    match name.split_once("::") {
        Some(("aten", op)) => aten::bytes(op, inputs),
        Some(("candle", op)) => others::of_candle(op, inputs),
        Some(("burn", op)) => others::of_burn(op, inputs),
        _ => None,
    }
}
