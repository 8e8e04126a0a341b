//! Bytes of matrix products, convolutions and attention.

use super::super::convolution::{
    Convolution, OPTIONS, OPTIONS_OF_CUDNN, OPTIONS_OF_MIOPEN, OPTIONS_OF_SLOW, Options,
};
use super::super::inputs::{Inputs, multiply};
use super::tensor::{Tensor, all, common_sizes, sum};

/// Returns the bytes of a matrix product of two tensors of any rank.
pub(super) fn product(inputs: Inputs<'_>, left: usize, right: usize) -> Option<u64> {
    let (left, right) = (inputs.tensor(left)?, inputs.tensor(right)?);
    let (rows, inner) = match left.dimensions {
        [] => return None,
        [inner] => (None, inner),
        [.., rows, inner] => (Some(rows), inner),
    };
    let (right_inner, columns) = match right.dimensions {
        [] => return None,
        [inner] => (inner, None),
        [.., inner, columns] => (inner, Some(columns)),
    };
    if inner != right_inner || left.dtype != right.dtype {
        return None;
    }
    let before = |tensor: Tensor<'_>| tensor.dimensions.len().saturating_sub(2);
    let batches = common_sizes(&[
        Tensor { dimensions: &left.dimensions[..before(left)], ..left },
        Tensor { dimensions: &right.dimensions[..before(right)], ..right },
    ])?;
    let output = left.sized(batches.iter().chain(rows).chain(columns));
    sum([left.bytes(), right.bytes(), output])
}

/// Returns the bytes of a product that is added to the first input.
pub(super) fn added_product(inputs: Inputs<'_>) -> Option<u64> {
    product(inputs, 1, 2)?.checked_add(inputs.tensor(0)?.bytes()?)
}

/// Returns the bytes for an input, a weight and possibly a bias. The weight's rows may be the
/// outputs or the inputs.
pub(super) fn linear(inputs: Inputs<'_>, input: usize, weight: usize) -> Option<u64> {
    let (input, weight) = (inputs.tensor(input)?, inputs.tensor(weight)?);
    let (inner, before) = input.dimensions.split_last()?;
    let outer = match weight.dimensions {
        [one, other] if one == inner => other,
        [one, other] if other == inner => one,
        _ => return None,
    };
    let bias = inputs.tensor(2).map_or(Some(0), Tensor::bytes);
    sum([input.bytes(), weight.bytes(), bias, input.sized(before.iter().chain([outer]))])
}

/// Returns the bytes of a linear layer's weight gradient, from its input and the gradient of its
/// output.
pub(super) fn linear_weight_gradient(inputs: Inputs<'_>) -> Option<u64> {
    let (input, gradient) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let sizes = [input.dimensions.last()?, gradient.dimensions.last()?];
    sum([input.bytes(), gradient.bytes(), input.sized(sizes)])
}

/// Returns the bytes of a convolution op of torch.
pub(super) fn convolution(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    let (options, has_bias) = match op {
        "cudnn_convolution" => (OPTIONS_OF_CUDNN, None),
        "miopen_convolution" => (OPTIONS_OF_MIOPEN, Some(2)),
        "_slow_conv2d_forward" => (OPTIONS_OF_SLOW, Some(3)),
        _ => return forward(inputs),
    };
    plain(inputs, options, has_bias.and_then(|place| inputs.tensor(place)))
}

/// Returns the bytes of torch's `convolution(input, weight, bias, stride, padding, dilation,
/// transposed, output_padding, groups)`.
fn forward(inputs: Inputs<'_>) -> Option<u64> {
    let integer = |place: usize| inputs.integers(place)?.first().copied();
    match integer(6) {
        Some(0) => plain(inputs, OPTIONS, inputs.tensor(2)),
        Some(_) => transposed(inputs, 7, integer(8)?),
        None => None,
    }
}

/// Returns the bytes of a convolution that is not transposed.
pub(super) fn plain(inputs: Inputs<'_>, options: Options, bias: Option<Tensor<'_>>) -> Option<u64> {
    let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let sizes = Convolution::with_options(inputs, options, Some(false))?;
    let channels = weight.dimensions.first()?;
    let output = input.sized([&sizes.batch, channels].into_iter().chain(&sizes.dots));
    sum([input.bytes(), weight.bytes(), bias.map_or(Some(0), Tensor::bytes), output])
}

/// Returns the bytes of a transposed convolution: `(input, weight, bias, stride, padding, dilation,
/// …)`.
pub(super) fn transposed(inputs: Inputs<'_>, output_padding: usize, groups: i64) -> Option<u64> {
    let (input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let [batch, _, sizes @ ..] = input.dimensions else { return None };
    let [_, channels, kernel @ ..] = weight.dimensions else { return None };
    let option = |place: usize, dimension: usize| {
        let values = inputs.integers(place)?;
        values.get(dimension).or(values.first()).copied()
    };
    let sizes = sizes.iter().zip(kernel).enumerate().map(|(dimension, (size, kernel))| {
        let covered = option(5, dimension)?.checked_mul(kernel - 1)?;
        (size - 1)
            .checked_mul(option(3, dimension)?)?
            .checked_sub(option(4, dimension)?.checked_mul(2)?)?
            .checked_add(covered)?
            .checked_add(option(output_padding, dimension)?)?
            .checked_add(1)
    });
    let sizes = sizes.collect::<Option<Vec<i64>>>()?;
    let channels = channels.checked_mul(groups)?;
    let output = input.sized([batch, &channels].into_iter().chain(&sizes));
    let bias = inputs.tensor(2).map_or(Some(0), Tensor::bytes);
    sum([input.bytes(), weight.bytes(), bias, output])
}

/// Returns the bytes of torch's `convolution_backward(grad_output, input, weight, bias_sizes, …,
/// output_mask)`.
pub(super) fn convolution_gradient(inputs: Inputs<'_>) -> Option<u64> {
    let (gradient, input, weight) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    let mask = inputs.integers(10).unwrap_or(&[1, 1, 0]);
    let is_set = |place: usize| mask.get(place).is_some_and(|one| *one != 0);
    let (of_input, of_weight, of_bias) = (is_set(0), is_set(1), is_set(2));
    let if_set = |is_set: bool, bytes: Option<u64>| if is_set { bytes } else { Some(0) };
    sum([
        gradient.bytes(),
        // The gradient of the input takes the weight, and that of the weight takes the input.
        if_set(of_input, sum([weight.bytes(), input.bytes()])),
        if_set(of_weight, sum([input.bytes(), weight.bytes()])),
        if_set(of_bias, gradient.dimensions.get(1).and_then(|size| gradient.sized([size]))),
    ])
}

/// Returns the bytes of an attention op from its queries, keys and values, and a mask or bias at
/// position 3.
pub(super) fn attention(inputs: Inputs<'_>) -> Option<u64> {
    let (query, key, value) = (inputs.tensor(0)?, inputs.tensor(1)?, inputs.tensor(2)?);
    let (_, before) = query.dimensions.split_last()?;
    let output = query.sized(before.iter().chain(value.dimensions.last()));
    sum([all([query, key, value]), inputs.tensor(3).map_or(Some(0), Tensor::bytes), output])
}

/// Returns the bytes of the gradient of an attention op: it reads the gradient of the output, the
/// inputs and the output, and writes three gradients.
pub(super) fn attention_gradient(inputs: Inputs<'_>) -> Option<u64> {
    let (gradient, [query, key, value]) =
        (inputs.tensor(0)?, [inputs.tensor(1)?, inputs.tensor(2)?, inputs.tensor(3)?]);
    let once = all([query, key, value]);
    sum([gradient.bytes(), once, gradient.bytes(), once])
}

/// Returns the bytes of a lookup of rows in a table.
pub(super) fn embedding(table: Tensor<'_>, indices: Tensor<'_>) -> Option<u64> {
    let [rows, width] = table.dimensions else { return None };
    let count = indices.elements()?;
    let row = table.sized([width])?;
    let read = count.min(multiply([rows])?).checked_mul(row);
    sum([indices.bytes(), read, count.checked_mul(row)])
}
