//! Report names of burn's ops, which follow the methods of its tensors.
//!
//! burn's ops have variants but no names. The matches are exhaustive: a burn version with new ops
//! fails to compile until they have names here, so that no op is lost.

use burn::backend::ir::{
    ActivationOperationIr, BaseOperationIr, BoolOperationIr, DistributedOperationIr,
    FloatOperationIr, IntOperationIr, ModuleOperationIr, NumericOperationIr, OperationIr,
};

/// The name of an op: a static name or a custom op's own name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum OpName<'op> {
    /// A static name with the prefix `burn::`.
    Known(&'static str),
    /// The name that the op's author chose.
    Custom(&'op str),
    /// An internal operation that does not count as an op: a tensor is freed.
    Bookkeeping,
}

pub(super) fn op_name(op: &OperationIr) -> OpName<'_> {
    OpName::Known(match op {
        OperationIr::BaseFloat(op) | OperationIr::BaseInt(op) | OperationIr::BaseBool(op) => {
            base(op)
        }
        OperationIr::NumericFloat(_, op) | OperationIr::NumericInt(_, op) => numeric(op),
        OperationIr::Bool(op) => boolean(op),
        OperationIr::Int(op) => int(op),
        OperationIr::Float(_, op) => float(op),
        OperationIr::Module(op) => module(op),
        OperationIr::Init(_) => "burn::from_data",
        OperationIr::Custom(op) => return OpName::Custom(&op.id),
        OperationIr::Drop(_) => return OpName::Bookkeeping,
        OperationIr::Distributed(op) => distributed(op),
        OperationIr::Activation(op) => activation(op),
    })
}

fn base(op: &BaseOperationIr) -> &'static str {
    use BaseOperationIr as Op;
    match op {
        Op::Reshape(_) => "burn::reshape",
        Op::SwapDims(_) => "burn::swap_dims",
        Op::Permute(_) => "burn::permute",
        Op::Flip(_) => "burn::flip",
        Op::Expand(_) => "burn::expand",
        Op::Unfold(_) => "burn::unfold",
        Op::Slice(_) => "burn::slice",
        Op::SliceAssign(_) => "burn::slice_assign",
        Op::Select(_) => "burn::select",
        Op::SelectAssign(_) => "burn::select_assign",
        Op::MaskWhere(_) => "burn::mask_where",
        Op::MaskFill(_) => "burn::mask_fill",
        Op::Gather(_) => "burn::gather",
        Op::Scatter(_) => "burn::scatter",
        Op::ScatterNd(_) => "burn::scatter_nd",
        Op::GatherNd(_) => "burn::gather_nd",
        Op::Equal(_) => "burn::equal",
        Op::EqualElem(_) => "burn::equal_elem",
        Op::RepeatDim(_) => "burn::repeat_dim",
        Op::Cat(_) => "burn::cat",
        Op::Cast(_) => "burn::cast",
        Op::Empty(_) => "burn::empty",
        Op::Ones(_) => "burn::ones",
        Op::Zeros(_) => "burn::zeros",
        Op::NotEqual(_) => "burn::not_equal",
        Op::NotEqualElem(_) => "burn::not_equal_elem",
        Op::All(_) => "burn::all",
        Op::Any(_) => "burn::any",
        Op::AllDim(_) => "burn::all_dim",
        Op::AnyDim(_) => "burn::any_dim",
    }
}

fn numeric(op: &NumericOperationIr) -> &'static str {
    use NumericOperationIr as Op;
    match op {
        Op::Add(_) => "burn::add",
        Op::AddScalar(_) => "burn::add_scalar",
        Op::Sub(_) => "burn::sub",
        Op::SubScalar(_) => "burn::sub_scalar",
        Op::Div(_) => "burn::div",
        Op::DivScalar(_) => "burn::div_scalar",
        Op::Rem(_) => "burn::remainder",
        Op::RemScalar(_) => "burn::remainder_scalar",
        Op::Mul(_) => "burn::mul",
        Op::MulScalar(_) => "burn::mul_scalar",
        Op::Abs(_) => "burn::abs",
        Op::Full(_) => "burn::full",
        Op::MeanDim(_) => "burn::mean_dim",
        Op::Mean(_) => "burn::mean",
        Op::Sum(_) => "burn::sum",
        Op::SumDim(_) => "burn::sum_dim",
        Op::SumDims(_) => "burn::sum_dims",
        Op::Prod(_) => "burn::prod",
        Op::ProdDim(_) => "burn::prod_dim",
        Op::Greater(_) => "burn::greater",
        Op::GreaterElem(_) => "burn::greater_elem",
        Op::GreaterEqual(_) => "burn::greater_equal",
        Op::GreaterEqualElem(_) => "burn::greater_equal_elem",
        Op::Lower(_) => "burn::lower",
        Op::LowerElem(_) => "burn::lower_elem",
        Op::LowerEqual(_) => "burn::lower_equal",
        Op::LowerEqualElem(_) => "burn::lower_equal_elem",
        Op::ArgMax(_) => "burn::argmax",
        Op::ArgTopK(_) => "burn::argtopk",
        Op::TopK(_) => "burn::topk",
        Op::TopKWithIndices(_) => "burn::topk_with_indices",
        Op::ArgMin(_) => "burn::argmin",
        Op::Max(_) => "burn::max",
        Op::MaxDimWithIndices(_) => "burn::max_dim_with_indices",
        Op::MinDimWithIndices(_) => "burn::min_dim_with_indices",
        Op::Min(_) => "burn::min",
        Op::MaxDim(_) => "burn::max_dim",
        Op::MinDim(_) => "burn::min_dim",
        Op::MaxAbs(_) => "burn::max_abs",
        Op::MaxAbsDim(_) => "burn::max_abs_dim",
        Op::Clamp(_) => "burn::clamp",
        Op::IntRandom(_) => "burn::random",
        Op::Powi(_) => "burn::powi",
        Op::PowiScalar(_) => "burn::powi_scalar",
        Op::CumSum(_) => "burn::cumsum",
        Op::CumProd(_) => "burn::cumprod",
        Op::CumMin(_) => "burn::cummin",
        Op::CumMax(_) => "burn::cummax",
        Op::Neg(_) => "burn::neg",
        Op::Sign(_) => "burn::sign",
        Op::ClampMin(_) => "burn::clamp_min",
        Op::ClampMax(_) => "burn::clamp_max",
        Op::Sort(_) => "burn::sort",
        Op::SortWithIndices(_) => "burn::sort_with_indices",
        Op::ArgSort(_) => "burn::argsort",
        Op::Pad(_) => "burn::pad",
    }
}

fn float(op: &FloatOperationIr) -> &'static str {
    use FloatOperationIr as Op;
    match op {
        Op::Exp(_) => "burn::exp",
        Op::Log(_) => "burn::log",
        Op::Log1p(_) => "burn::log1p",
        Op::Erf(_) => "burn::erf",
        Op::PowfScalar(_) => "burn::powf_scalar",
        Op::Sqrt(_) => "burn::sqrt",
        Op::Cos(_) => "burn::cos",
        Op::Cosh(_) => "burn::cosh",
        Op::Sin(_) => "burn::sin",
        Op::Sinh(_) => "burn::sinh",
        Op::Tan(_) => "burn::tan",
        Op::Tanh(_) => "burn::tanh",
        Op::ArcCos(_) => "burn::acos",
        Op::ArcCosh(_) => "burn::acosh",
        Op::ArcSin(_) => "burn::asin",
        Op::ArcSinh(_) => "burn::asinh",
        Op::ArcTan(_) => "burn::atan",
        Op::ArcTanh(_) => "burn::atanh",
        Op::ArcTan2(_) => "burn::atan2",
        Op::Round(_) => "burn::round",
        Op::Floor(_) => "burn::floor",
        Op::Ceil(_) => "burn::ceil",
        Op::Trunc(_) => "burn::trunc",
        Op::IntoInt(_) => "burn::int",
        Op::Matmul(_) => "burn::matmul",
        Op::Cross(_) => "burn::cross",
        Op::Random(_) => "burn::random",
        Op::Recip(_) => "burn::recip",
        Op::IsNan(_) => "burn::is_nan",
        Op::IsInf(_) => "burn::is_inf",
        Op::Quantize(_) => "burn::quantize",
        Op::Dequantize(_) => "burn::dequantize",
        Op::GridSample2d(_) => "burn::grid_sample_2d",
        Op::Powf(_) => "burn::powf",
        Op::Hypot(_) => "burn::hypot",
    }
}

fn int(op: &IntOperationIr) -> &'static str {
    use IntOperationIr as Op;
    match op {
        Op::IntoFloat(_) => "burn::float",
        Op::BitwiseAnd(_) => "burn::bitwise_and",
        Op::BitwiseAndScalar(_) => "burn::bitwise_and_scalar",
        Op::BitwiseOr(_) => "burn::bitwise_or",
        Op::BitwiseOrScalar(_) => "burn::bitwise_or_scalar",
        Op::BitwiseXor(_) => "burn::bitwise_xor",
        Op::BitwiseXorScalar(_) => "burn::bitwise_xor_scalar",
        Op::BitwiseNot(_) => "burn::bitwise_not",
        Op::BitwiseLeftShift(_) => "burn::bitwise_left_shift",
        Op::BitwiseLeftShiftScalar(_) => "burn::bitwise_left_shift_scalar",
        Op::BitwiseRightShift(_) => "burn::bitwise_right_shift",
        Op::BitwiseRightShiftScalar(_) => "burn::bitwise_right_shift_scalar",
        Op::Matmul(_) => "burn::matmul",
    }
}

fn boolean(op: &BoolOperationIr) -> &'static str {
    use BoolOperationIr as Op;
    match op {
        Op::IntoFloat(_) => "burn::float",
        Op::IntoInt(_) => "burn::int",
        Op::Not(_) => "burn::bool_not",
        Op::And(_) => "burn::bool_and",
        Op::Or(_) => "burn::bool_or",
        Op::Xor(_) => "burn::bool_xor",
    }
}

fn activation(op: &ActivationOperationIr) -> &'static str {
    use ActivationOperationIr as Op;
    match op {
        Op::Relu(_) => "burn::relu",
        Op::ReluBackward(_) => "burn::relu_backward",
        Op::LeakyRelu(_) => "burn::leaky_relu",
        Op::PRelu(_) => "burn::prelu",
        Op::Gelu(_) => "burn::gelu",
        Op::GeluBackward(_) => "burn::gelu_backward",
        Op::Sigmoid(_) => "burn::sigmoid",
        Op::SigmoidBackward(_) => "burn::sigmoid_backward",
        Op::HardSigmoid(_) => "burn::hard_sigmoid",
        Op::LogSigmoid(_) => "burn::log_sigmoid",
        Op::LogSigmoidBackward(_) => "burn::log_sigmoid_backward",
        Op::Softmax(_) => "burn::softmax",
        Op::LogSoftmax(_) => "burn::log_softmax",
        Op::Softmin(_) => "burn::softmin",
    }
}

fn distributed(op: &DistributedOperationIr) -> &'static str {
    use DistributedOperationIr as Op;
    match op {
        Op::AllReduce(_) => "burn::all_reduce",
        Op::SyncCollective => "burn::sync_collective",
    }
}

fn module(op: &ModuleOperationIr) -> &'static str {
    use ModuleOperationIr as Op;
    match op {
        Op::BatchNorm(_) => "burn::batch_norm",
        Op::Embedding(_) => "burn::embedding",
        Op::EmbeddingBackward(_) => "burn::embedding_backward",
        Op::Linear(_) => "burn::linear",
        Op::LinearXBackward(_) => "burn::linear_x_backward",
        Op::LinearWeightBackward(_) => "burn::linear_weight_backward",
        Op::LinearBiasBackward(_) => "burn::linear_bias_backward",
        Op::Conv1d(_) => "burn::conv1d",
        Op::Conv1dXBackward(_) => "burn::conv1d_x_backward",
        Op::Conv1dWeightBackward(_) => "burn::conv1d_weight_backward",
        Op::Conv1dBiasBackward(_) => "burn::conv1d_bias_backward",
        Op::Conv2d(_) => "burn::conv2d",
        Op::Conv2dXBackward(_) => "burn::conv2d_x_backward",
        Op::Conv2dWeightBackward(_) => "burn::conv2d_weight_backward",
        Op::Conv2dBiasBackward(_) => "burn::conv2d_bias_backward",
        Op::Conv3d(_) => "burn::conv3d",
        Op::Conv3dXBackward(_) => "burn::conv3d_x_backward",
        Op::Conv3dWeightBackward(_) => "burn::conv3d_weight_backward",
        Op::Conv3dBiasBackward(_) => "burn::conv3d_bias_backward",
        Op::DeformableConv2d(_) => "burn::deform_conv2d",
        Op::DeformableConv2dBackward(_) => "burn::deform_conv2d_backward",
        Op::ConvTranspose1d(_) => "burn::conv_transpose1d",
        Op::ConvTranspose2d(_) => "burn::conv_transpose2d",
        Op::ConvTranspose3d(_) => "burn::conv_transpose3d",
        Op::AvgPool1d(_) => "burn::avg_pool1d",
        Op::AvgPool2d(_) => "burn::avg_pool2d",
        Op::AvgPool1dBackward(_) => "burn::avg_pool1d_backward",
        Op::AvgPool2dBackward(_) => "burn::avg_pool2d_backward",
        Op::AdaptiveAvgPool1d(_) => "burn::adaptive_avg_pool1d",
        Op::AdaptiveAvgPool2d(_) => "burn::adaptive_avg_pool2d",
        Op::AdaptiveAvgPool1dBackward(_) => "burn::adaptive_avg_pool1d_backward",
        Op::AdaptiveAvgPool2dBackward(_) => "burn::adaptive_avg_pool2d_backward",
        Op::AdaptiveAvgPool3d(_) => "burn::adaptive_avg_pool3d",
        Op::AdaptiveAvgPool3dBackward(_) => "burn::adaptive_avg_pool3d_backward",
        Op::MaxPool1d(_) => "burn::max_pool1d",
        Op::MaxPool1dWithIndices(_) => "burn::max_pool1d_with_indices",
        Op::MaxPool1dWithIndicesBackward(_) => "burn::max_pool1d_with_indices_backward",
        Op::MaxPool2d(_) => "burn::max_pool2d",
        Op::MaxPool2dWithIndices(_) => "burn::max_pool2d_with_indices",
        Op::MaxPool2dWithIndicesBackward(_) => "burn::max_pool2d_with_indices_backward",
        Op::Interpolate(_) => "burn::interpolate",
        Op::InterpolateBackward(_) => "burn::interpolate_backward",
        Op::Attention(_) => "burn::attention",
        Op::CtcLoss(_) => "burn::ctc_loss",
        Op::CtcLossBackward(_) => "burn::ctc_loss_backward",
        Op::LayerNorm(_) => "burn::layer_norm",
        Op::Unfold4d(_) => "burn::unfold4d",
        Op::ConvTranspose1dWeightBackward(_) => "burn::conv_transpose1d_weight_backward",
        Op::ConvTranspose1dBiasBackward(_) => "burn::conv_transpose1d_bias_backward",
        Op::ConvTranspose2dWeightBackward(_) => "burn::conv_transpose2d_weight_backward",
        Op::ConvTranspose2dBiasBackward(_) => "burn::conv_transpose2d_bias_backward",
        Op::ConvTranspose3dWeightBackward(_) => "burn::conv_transpose3d_weight_backward",
        Op::ConvTranspose3dBiasBackward(_) => "burn::conv_transpose3d_bias_backward",
    }
}
