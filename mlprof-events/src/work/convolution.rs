//! Sizes of convolutions.

use super::inputs::{Inputs, multiply};

/// Positions of a convolution's options among its inputs.
#[derive(Clone, Copy)]
pub(super) struct Options {
    pub(super) stride: usize,
    pub(super) padding: usize,
    /// `None` stands for a dilation of 1 in each dimension.
    pub(super) dilation: Option<usize>,
}

/// Positions for `(input, weight, bias, stride, padding, dilation, …)`.
pub(super) const OPTIONS: Options = Options { stride: 3, padding: 4, dilation: Some(5) };
/// Positions for `(input, weight, padding, stride, dilation, …)`.
pub(super) const OPTIONS_OF_CUDNN: Options = Options { stride: 3, padding: 2, dilation: Some(4) };
/// Positions for `(input, weight, bias, padding, stride, dilation, …)`.
pub(super) const OPTIONS_OF_MIOPEN: Options = Options { stride: 4, padding: 3, dilation: Some(5) };
/// Positions for `(input, weight, kernel_size, bias, stride, padding)`.
pub(super) const OPTIONS_OF_SLOW: Options = Options { stride: 4, padding: 5, dilation: None };

/// Sizes of a convolution. Every weight is multiplied once per batch element and position on the
/// dense side. That is the output, or the input of a transposed convolution.
pub(super) struct Convolution<'op> {
    pub(super) batch: i64,
    /// Sizes of the dense side, over which the weight moves.
    pub(super) dots: Vec<i64>,
    pub(super) weight: &'op [i64],
}

impl<'op> Convolution<'op> {
    pub(super) fn flops(&self) -> Option<u64> {
        multiply([&self.batch, &2].into_iter().chain(&self.dots).chain(self.weight))
    }

    /// Reads the inputs of torch's `convolution(input, weight, bias, stride, padding, dilation,
    /// transposed, output_padding, groups)`.
    pub(super) fn forward(inputs: Inputs<'op>) -> Option<Self> {
        let told = inputs.integers(6).and_then(|flag| flag.first()).map(|flag| *flag != 0);
        let groups = inputs.integers(8).and_then(|groups| groups.first()).copied();
        let (input, weight) = (inputs.dimensions(0)?, inputs.dimensions(1)?);
        let is_transposed = told.unwrap_or_else(|| {
            // A convolution's weight is [out, in / groups, …]; that of a transposed one is [in, out
            // / groups, …].
            let channels = input.get(1);
            let fits = weight.get(1).map(|inner| inner * groups.unwrap_or(1));
            fits.as_ref() != channels && weight.first() == channels
        });
        Self::with_options(inputs, OPTIONS, Some(is_transposed))
    }

    /// Reads an input, a weight and options. Padding is one number per dimension or two.
    pub(super) fn with_options(
        inputs: Inputs<'op>,
        options: Options,
        is_transposed: Option<bool>,
    ) -> Option<Self> {
        let (input, weight) = (inputs.dimensions(0)?, inputs.dimensions(1)?);
        let sizes = input.get(2..)?;
        let kernel = weight.get(2..)?;
        if kernel.len() != sizes.len() || kernel.is_empty() {
            return None;
        }
        let batch = *input.first()?;
        if is_transposed == Some(true) {
            return Some(Self { batch, dots: sizes.to_vec(), weight });
        }
        let option = |place: usize, dimension: usize| {
            let values = inputs.integers(place)?;
            values.get(dimension).or(values.first()).copied()
        };
        let padding = |dimension: usize| {
            let values = inputs.integers(options.padding)?;
            match values.get(2 * dimension..2 * dimension + 2) {
                // With two numbers per dimension, both sides have their own padding.
                Some([before, after]) if values.len() == 2 * sizes.len() => {
                    before.checked_add(*after)
                }
                _ => option(options.padding, dimension)?.checked_mul(2),
            }
        };
        let dots = sizes.iter().zip(kernel).enumerate().map(|(dimension, (size, kernel))| {
            let (stride, padding) = (option(options.stride, dimension)?, padding(dimension)?);
            let dilation = options.dilation.map_or(Some(1), |place| option(place, dimension))?;
            let covered = dilation.checked_mul(kernel - 1)?.checked_add(1)?;
            let room = padding.checked_add(*size)?.checked_sub(covered)?;
            (room >= 0 && stride > 0).then(|| room / stride + 1)
        });
        Some(Self { batch, dots: dots.collect::<Option<_>>()?, weight })
    }

    /// Reads the inputs of torch's `convolution_backward(grad_output, input, weight, bias_sizes,
    /// stride, padding, dilation, transposed, output_padding, groups, output_mask)`. Either
    /// gradient takes as many operations as the forward pass.
    pub(super) fn backward(inputs: Inputs<'op>) -> Option<Self> {
        let (output, input) = (inputs.dimensions(0)?, inputs.dimensions(1)?);
        let weight = inputs.dimensions(2)?;
        let told = inputs.integers(7).and_then(|flag| flag.first()).map(|flag| *flag != 0);
        let is_transposed = told.unwrap_or_else(|| {
            let fits = weight.first() == output.get(1);
            // If the channels are inconclusive, the sizes decide: the output of a convolution is
            // not larger than its padded input.
            let grows = output.get(2..) > input.get(2..);
            !fits || (weight.first() == input.get(1) && grows)
        });
        let dense = if is_transposed { input } else { output };
        Some(Self { batch: *dense.first()?, dots: dense.get(2..)?.to_vec(), weight })
    }
}
