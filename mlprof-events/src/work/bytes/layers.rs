//! Bytes of normalisations, reductions, gathers and optimizers.

use super::super::inputs::{Inputs, multiply};
use super::tensor::{Output, Tensor, all, elementwise, sum};

/// Returns the bytes of an op that reads the tensors at these positions, if they are there, and
/// writes tensors like those at `written`.
pub(super) fn moves(inputs: Inputs<'_>, read: &[usize], written: &[usize]) -> Option<u64> {
    // The first of both must be tensors. The others are optional.
    let first = [read.first(), written.first()].into_iter().flatten();
    first.into_iter().try_for_each(|place| inputs.tensor(*place).map(drop))?;
    all(read.iter().chain(written).filter_map(|place| inputs.tensor(*place)))
}

/// Returns the bytes of a reduction: its input and one element of the output.
pub(super) fn reduction(inputs: Inputs<'_>) -> Option<u64> {
    let input = inputs.tensor(0)?;
    if let Some(other) = inputs.tensor(1) {
        // `max` and `min` of two tensors.
        return elementwise(&[input, other], Output::Promoted);
    }
    sum([input.bytes(), input.element()])
}

/// Returns the bytes of a loss: its inputs and one element of the output.
pub(super) fn loss(inputs: Inputs<'_>, count: usize) -> Option<u64> {
    let input = inputs.tensor(0)?;
    sum([all(inputs.tensors(count)), input.element()])
}

/// Returns the bytes of a loss that reads one element per target.
pub(super) fn picked_loss(inputs: Inputs<'_>) -> Option<u64> {
    let (input, target) = (inputs.tensor(0)?, inputs.tensor(1)?);
    let read = target.elements()?.checked_mul(input.element()?);
    sum([read, target.bytes(), input.element()])
}

/// Returns the bytes of `gather`: one element is read and written per index.
pub(super) fn gather(input: Tensor<'_>, indices: Tensor<'_>) -> Option<u64> {
    let moved = indices.elements()?.checked_mul(input.element()?)?;
    sum([indices.bytes(), Some(moved), Some(moved)])
}

/// Returns the bytes of a selection of slices along a dimension. `None` if the dimension matters
/// and is unknown.
pub(super) fn select(
    input: Tensor<'_>,
    dimension: Option<i64>,
    indices: Tensor<'_>,
) -> Option<u64> {
    let size = match dimension {
        Some(place) => {
            let place = if place < 0 { place + input.dimensions.len() as i64 } else { place };
            *input.dimensions.get(usize::try_from(place).ok()?)?
        }
        None => {
            let first = *input.dimensions.first()?;
            input.dimensions.iter().all(|size| *size == first).then_some(first)?
        }
    };
    let size = multiply([&size])?;
    let slice = input.bytes()?.checked_div(size)?;
    let count = indices.elements()?;
    let read = count.min(size).checked_mul(slice);
    sum([indices.bytes(), read, count.checked_mul(slice)])
}

/// Returns the bytes of a concatenation: all inputs are read and written.
pub(super) fn concatenation(inputs: Inputs<'_>) -> Option<u64> {
    let tensors = inputs.list(0).or_else(|| {
        let tensors = inputs.tensors(usize::MAX);
        (tensors.len() == inputs.0.len() && tensors.len() > 1).then_some(tensors)
    })?;
    let (first, rest) = tensors.split_first()?;
    rest.iter().all(|tensor| tensor.dtype == first.dtype).then_some(())?;
    all(tensors)?.checked_mul(2)
}

/// Returns the bytes of an optimizer's `_foreach_` op.
pub(super) fn foreach(op: &str, inputs: Inputs<'_>) -> Option<u64> {
    let first = all(inputs.list(0)?)?;
    let others = (1..inputs.0.len()).filter_map(|place| inputs.list(place));
    let others = sum(others.map(all))?;
    match op {
        "zero_" => Some(first),
        "copy_" => others.checked_add(first),
        "norm" | "max" => {
            let elements = inputs.list(0)?.into_iter().map(Tensor::element);
            first.checked_add(sum(elements)?)
        }
        _ => sum([Some(first), Some(others), Some(first)]),
    }
}

/// Returns the bytes of an optimizer in one op. Parameters and states are written; the gradients in
/// list 1 and the step counts in list `steps` are not.
pub(super) fn fused_optimizer(inputs: Inputs<'_>, steps: Option<usize>) -> Option<u64> {
    let lists: Vec<(usize, Vec<Tensor<'_>>)> =
        (0..inputs.0.len()).filter_map(|place| Some((place, inputs.list(place)?))).collect();
    (lists.len() > 1).then_some(())?;
    let read = sum(lists.iter().map(|(_, list)| all(list.iter().copied())));
    let is_written = |place: usize| place != 1 && Some(place) != steps;
    let written = lists.iter().filter(|(place, _)| is_written(*place));
    sum([read, sum(written.map(|(_, list)| all(list.iter().copied())))])
}
