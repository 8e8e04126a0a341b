//! How many floating-point operations an op does, by the shapes of its inputs.

use mlprof_events::TensorShape;

/// The floating-point operations of one call of an op, a multiplication and an addition counted as
/// two, as torch's `FlopCounterMode` counts them. `None` for ops of which it is not known, or whose
/// inputs do not say.
///
/// Counted are
///
/// * matrix products: `mm`, `addmm`, `bmm`, `baddbmm`, `mv` and their like; of other frameworks also
///   `matmul` and `linear`;
/// * convolutions of any number of dimensions, transposed, grouped, dilated, and their gradients:
///   `convolution`, `convolution_backward`, `conv2d`, …, and the ops of libraries that they call;
/// * fused scaled dot product attention and its gradient, also of sequences of several lengths, each of
///   which is taken to be as long as the longest;
/// * recurrent layers that are one op (`mkldnn_rnn_layer`, `_cudnn_rnn`, `miopen_rnn`, `_lstm_mps`, and
///   the gradients of the first three): in each step each row of the batch is multiplied with each
///   matrix of weights, so for a layer of `gates` gates it is
///   `2 × steps × batch × gates × hidden × (inputs + hidden)`. Their gradient is twice that, for the
///   inputs and for the weights. What is done element by element is not counted, as nowhere, so
///   `_thnn_fused_lstm_cell` has none: the products of its gates are ops beside it. Those of candle
///   and burn are made of products, which are counted.
///
/// Of torch's ops that call each other **one level** counts: `aten::addmm` and not the
/// `aten::linear` around it, `aten::convolution` and neither `aten::conv2d` around it nor
/// `aten::_convolution` inside it (which counts where traced modules call it alone), the fused
/// attention and not the `aten::bmm`s of the one that is put together; of `aten::lstm`, `aten::gru`
/// and `aten::lstm_cell` the fused layers or the products inside. In tables an op inside another
/// one that is counted has no operations of its own, so that sums are right for other frameworks
/// too.
///
/// Where it differs from torch: it counts recurrent layers. The gradient of a grouped convolution's weight is divided by the
/// number of groups, which torch forgets. A `convolution_backward` that does not say which gradients
/// it computes is taken to compute those of the input and of the weight.
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
        // What `convolution` calls on a device; it has no operations of its own beside it.
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
        // An input, the matrix of weights for it, and that for the state before.
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
                // The gradient of what comes out stands first.
                | "fused_attention_overrideable_backward" => {
                    Inputs(inputs.0.get(1..)?).attention()?.backward_flops()
                }
                _ => None,
            }
        }
    }
}

/// Ops of frameworks whose ops do not call each other under other names.
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

/// The inputs of an op, by their places.
#[derive(Clone, Copy)]
struct Inputs<'op>(&'op [TensorShape]);

impl<'op> Inputs<'op> {
    fn dimensions(self, place: usize) -> Option<&'op [i64]> {
        match self.0.get(place)? {
            TensorShape::Tensor(_, dimensions) => Some(dimensions),
            _ => None,
        }
    }

    fn integers(self, place: usize) -> Option<&'op [i64]> {
        match self.0.get(place)? {
            TensorShape::Integers(values) => Some(values),
            _ => None,
        }
    }

    /// A matrix product of two tensors of any rank, the dimensions before the last two broadcast.
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

    /// An input and a weight, the weight as rows or as columns of what comes out.
    fn linear(self, input: usize, weight: usize) -> Option<u64> {
        let (input, weight) = (self.dimensions(input)?, self.dimensions(weight)?);
        let (inner, before) = input.split_last()?;
        let [one, other] = weight else { return None };
        if one != inner && other != inner {
            return None;
        }
        multiply(before.iter().chain([one, other, &2]))
    }

    /// An input and the gradient of what came out, all rows of the one with all rows of the other.
    fn outer_product(self) -> Option<u64> {
        let (rows, columns) = (self.dimensions(0)?, self.dimensions(1)?.last()?);
        multiply(rows.iter().chain([columns, &2]))
    }

    /// Every row of the input, of all steps, with every matrix of weights at these places, alone or in
    /// lists. What else is in a list are biases, which are vectors. A packed sequence has one row per
    /// step that there is.
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

    /// Queries, keys and values: `[batch, heads, length, dimension]`.
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

/// The product; `None` if it is more than can be counted, or a size makes no sense.
fn multiply<'size>(sizes: impl IntoIterator<Item = &'size i64>) -> Option<u64> {
    sizes
        .into_iter()
        .try_fold(1_u64, |product, size| product.checked_mul(u64::try_from(*size).ok()?))
}

/// The places of a convolution's options among its inputs.
#[derive(Clone, Copy)]
struct Options {
    stride: usize,
    padding: usize,
    /// `None`: 1 in each dimension.
    dilation: Option<usize>,
}

/// `(input, weight, bias, stride, padding, dilation, …)`.
const OPTIONS: Options = Options { stride: 3, padding: 4, dilation: Some(5) };
/// `(input, weight, padding, stride, dilation, …)`.
const OPTIONS_OF_CUDNN: Options = Options { stride: 3, padding: 2, dilation: Some(4) };
/// `(input, weight, bias, padding, stride, dilation, …)`.
const OPTIONS_OF_MIOPEN: Options = Options { stride: 4, padding: 3, dilation: Some(5) };
/// `(input, weight, kernel_size, bias, stride, padding)`.
const OPTIONS_OF_SLOW: Options = Options { stride: 4, padding: 5, dilation: None };

/// Attention whose tensors are `[batch, length, heads, dimension]`, or, of sequences of several
/// lengths, `[all lengths, heads, dimension]`.
struct Attention {
    batch: i64,
    heads: i64,
    queries: i64,
    keys: i64,
    dimension: i64,
    values: i64,
}

impl Attention {
    /// Queries, keys and values come first. At the place `offsets` there are those of the queries'
    /// sequences, if their lengths differ; then those of the keys', and the greatest length of
    /// either. A trace does not have the lengths, so each is taken to be the greatest.
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
        // Tensors of one rank: of each sequence, or of all of them one after the other.
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

    /// The scores are computed once more.
    fn backward_flops(&self) -> Option<u64> {
        let Self { batch, heads, queries, keys, dimension, values } = self;
        let by_keys = multiply([batch, heads, queries, keys, dimension, &2])?.checked_mul(3)?;
        let by_values = multiply([batch, heads, queries, keys, values, &2])?.checked_mul(2)?;
        by_keys.checked_add(by_values)
    }
}

/// Every weight is multiplied once per batch and place of the side that is dense: the output, or of
/// a transposed convolution the input.
struct Convolution<'op> {
    batch: i64,
    /// The sizes that the weight is moved over.
    dots: Vec<i64>,
    weight: &'op [i64],
}

impl<'op> Convolution<'op> {
    fn flops(&self) -> Option<u64> {
        multiply([&self.batch, &2].into_iter().chain(&self.dots).chain(self.weight))
    }

    /// torch's `convolution(input, weight, bias, stride, padding, dilation, transposed,
    /// output_padding, groups)`.
    fn forward(inputs: Inputs<'op>) -> Option<Self> {
        let told = inputs.integers(6).and_then(|flag| flag.first()).map(|flag| *flag != 0);
        let groups = inputs.integers(8).and_then(|groups| groups.first()).copied();
        let (input, weight) = (inputs.dimensions(0)?, inputs.dimensions(1)?);
        let is_transposed = told.unwrap_or_else(|| {
            // A convolution's weight is [out, in / groups, …], a transposed one's [in, out / groups, …].
            let channels = input.get(1);
            let fits = weight.get(1).map(|inner| inner * groups.unwrap_or(1));
            fits.as_ref() != channels && weight.first() == channels
        });
        Self::with_options(inputs, OPTIONS, Some(is_transposed))
    }

    /// An input, a weight, and options: padding is one number per dimension or two.
    fn with_options(
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
                // Two per dimension: the two sides differ.
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

    /// torch's `convolution_backward(grad_output, input, weight, bias_sizes, stride, padding,
    /// dilation, transposed, output_padding, groups, output_mask)`: either gradient costs what
    /// forward does.
    fn backward(inputs: Inputs<'op>) -> Option<Self> {
        let (output, input) = (inputs.dimensions(0)?, inputs.dimensions(1)?);
        let weight = inputs.dimensions(2)?;
        let told = inputs.integers(7).and_then(|flag| flag.first()).map(|flag| *flag != 0);
        let is_transposed = told.unwrap_or_else(|| {
            let fits = weight.first() == output.get(1);
            // Where the channels do not tell, the sizes do: a convolution does not grow what it is
            // given by more than its padding.
            let grows = output.get(2..) > input.get(2..);
            !fits || (weight.first() == input.get(1) && grows)
        });
        let dense = if is_transposed { input } else { output };
        Some(Self { batch: *dense.first()?, dots: dense.get(2..)?.to_vec(), weight })
    }
}
