//! Shapes and element types of an op's inputs.

use std::collections::HashSet;

use burn::backend::DType as BurnDType;
use burn::backend::ir::{ModuleOperationIr, OperationIr, TensorId, TensorIr};
use mlprof_core::hook::{DType, InputsBuilder};

/// Collects an op's inputs into an [`InputsBuilder`] without an allocation per op.
#[derive(Default)]
pub(super) struct Inputs {
    builder: InputsBuilder,
    dimensions: Vec<i64>,
    /// Outputs of the block's ops that were processed so far.
    made: HashSet<TensorId>,
}

impl Inputs {
    /// Returns the inputs of `op`. For a convolution they include its integer arguments.
    pub(super) fn of(&mut self, op: &OperationIr) -> &InputsBuilder {
        self.builder.clear();
        let is_told = matches!(op, OperationIr::Module(op) if self.convolution(op));
        if !is_told {
            op.inputs().for_each(|tensor| self.tensor(tensor));
        }
        &self.builder
    }

    /// Returns the inputs of a block: the inputs of its ops that are not outputs of other ops in
    /// the block.
    pub(super) fn of_block(&mut self, ops: &[&OperationIr]) -> &InputsBuilder {
        self.builder.clear();
        let mut made = std::mem::take(&mut self.made);
        made.clear();
        for op in ops {
            op.inputs().filter(|input| !made.contains(&input.id)).for_each(|input| {
                self.tensor(input);
            });
            made.extend(op.outputs().map(|output| output.id));
        }
        self.made = made;
        &self.builder
    }

    fn tensor(&mut self, tensor: &TensorIr) {
        self.dimensions.clear();
        self.dimensions.extend(tensor.shape.iter().map(|size| *size as i64));
        self.builder.tensor(dtype(tensor.dtype), &self.dimensions);
    }

    fn optional(&mut self, tensor: Option<&TensorIr>) {
        match tensor {
            Some(tensor) => self.tensor(tensor),
            None => self.builder.not_a_tensor(),
        }
    }

    fn integers(&mut self, values: impl IntoIterator<Item = usize>) {
        self.dimensions.clear();
        self.dimensions.extend(values.into_iter().map(|value| value as i64));
        self.builder.integers(&self.dimensions);
    }

    /// Adds the padding: one number per dimension, or two if the two sides of a dimension differ.
    fn padding(&mut self, padding: &[(usize, usize)]) {
        if padding.iter().all(|(before, after)| before == after) {
            self.integers(padding.iter().map(|(before, _)| *before));
        } else {
            self.integers(padding.iter().flat_map(|(before, after)| [*before, *after]));
        }
    }

    /// Adds the inputs of a convolution and returns `true`, or returns `false` for other ops. The
    /// order is tensors, stride, padding, dilation, output padding (only for a transposed
    /// convolution) and groups.
    fn convolution(&mut self, op: &ModuleOperationIr) -> bool {
        macro_rules! tell {
            (forward $op:expr) => {{
                self.tensor(&$op.x);
                self.tensor(&$op.weight);
                self.optional($op.bias.as_ref());
            }};
            (backward $op:expr) => {{
                self.tensor(&$op.x);
                self.tensor(&$op.weight);
                self.tensor(&$op.output_grad);
            }};
            (pairs $op:expr) => {{
                self.integers($op.options.stride);
                self.padding(&$op.options.padding);
                self.integers($op.options.dilation);
                self.integers([$op.options.groups]);
            }};
            (numbers $op:expr) => {{
                self.integers($op.options.stride);
                self.integers($op.options.padding);
                self.integers($op.options.dilation);
                self.integers([$op.options.groups]);
            }};
            (transposed $op:expr) => {{
                self.integers($op.options.stride);
                self.integers($op.options.padding);
                self.integers($op.options.dilation);
                self.integers($op.options.padding_out);
                self.integers([$op.options.groups]);
            }};
            ($inputs:ident $integers:ident $op:expr) => {{
                tell!($inputs $op);
                tell!($integers $op);
            }};
        }
        use ModuleOperationIr as Op;
        match op {
            Op::Conv1d(op) => tell!(forward pairs op),
            Op::Conv2d(op) => tell!(forward pairs op),
            Op::Conv3d(op) => tell!(forward numbers op),
            Op::Conv1dXBackward(op) => tell!(backward pairs op),
            Op::Conv2dXBackward(op) => tell!(backward pairs op),
            Op::Conv3dXBackward(op) => tell!(backward numbers op),
            Op::Conv1dWeightBackward(op) => tell!(backward pairs op),
            Op::Conv2dWeightBackward(op) => tell!(backward pairs op),
            Op::Conv3dWeightBackward(op) => tell!(backward numbers op),
            Op::ConvTranspose1d(op) => tell!(forward transposed op),
            Op::ConvTranspose2d(op) => tell!(forward transposed op),
            Op::ConvTranspose3d(op) => tell!(forward transposed op),
            Op::ConvTranspose1dWeightBackward(op) => tell!(backward transposed op),
            Op::ConvTranspose2dWeightBackward(op) => tell!(backward transposed op),
            Op::ConvTranspose3dWeightBackward(op) => tell!(backward transposed op),
            _ => return false,
        }
        true
    }
}

fn dtype(dtype: BurnDType) -> DType {
    match dtype {
        BurnDType::F64 => DType::Float64,
        BurnDType::F32 | BurnDType::Flex32 => DType::Float32,
        BurnDType::F16 => DType::Float16,
        BurnDType::BF16 => DType::BFloat16,
        BurnDType::I64 => DType::Int64,
        BurnDType::I32 => DType::Int32,
        BurnDType::I16 => DType::Int16,
        BurnDType::I8 => DType::Int8,
        BurnDType::U64 => DType::UInt64,
        BurnDType::U32 => DType::UInt32,
        BurnDType::U16 => DType::UInt16,
        BurnDType::U8 => DType::UInt8,
        BurnDType::Bool(_) => DType::Bool,
        BurnDType::QFloat(_) => DType::Quantized,
    }
}
