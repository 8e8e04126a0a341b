//! Extracts tensors from values of unknown type.

use std::any::Any;

use burn::nn::attention::MhaOutput;
use burn::nn::{LstmState, RnnState};
use burn::tensor::Tensor;
#[cfg(feature = "train")]
use burn::train::{
    ClassificationOutput, MultiLabelClassificationOutput, RegressionOutput, SequenceOutput,
};
use mlprof_core::hook::TensorNumbers;

use super::tensor::Numbers;

/// Calls `tell` with the floating-point tensor in a module's input or output. It accepts these
/// types, and returns `false` for all others:
///
/// - a tensor
/// - a pair, of which it takes the first tensor
/// - an [`LstmState`] or [`RnnState`], of which it takes the hidden state
/// - an [`MhaOutput`], of which it takes the context
pub(super) fn with_tensor(value: &dyn Any, tell: &mut dyn FnMut(&dyn TensorNumbers)) -> bool {
    macro_rules! tensors {
        ($($rank:literal)*) => {$(
            if let Some(tensor) = value.downcast_ref::<Tensor<$rank>>() {
                tell(&Numbers::of(tensor));
                return true;
            }
            if let Some((tensor, _)) = value.downcast_ref::<(Tensor<$rank>, Tensor<$rank>)>() {
                tell(&Numbers::of(tensor));
                return true;
            }
        )*};
    }
    macro_rules! first_of_pairs {
        ($($other:ty)*) => {$(
            if let Some((tensor, _)) = value.downcast_ref::<(Tensor<3>, $other)>() {
                tell(&Numbers::of(tensor));
                return true;
            }
        )*};
    }
    macro_rules! fields {
        ($($whole:ty: $field:ident)*) => {$(
            if let Some(whole) = value.downcast_ref::<$whole>() {
                tell(&Numbers::of(&whole.$field));
                return true;
            }
        )*};
    }
    tensors!(2 4 3 1 5 6 7 8);
    first_of_pairs!(LstmState<2> LstmState<3> RnnState<2> RnnState<3>);
    fields!(MhaOutput: context LstmState<2>: hidden LstmState<3>: hidden RnnState<2>: hidden RnnState<3>: hidden);
    false
}

/// Returns the loss in one of burn's training step outputs.
#[cfg(feature = "train")]
pub(super) fn loss_in(output: &dyn Any) -> Option<&Tensor<1>> {
    macro_rules! losses {
        ($($output:ty)*) => {$(
            if let Some(output) = output.downcast_ref::<$output>() {
                return Some(&output.loss);
            }
        )*};
    }
    losses!(ClassificationOutput RegressionOutput MultiLabelClassificationOutput SequenceOutput);
    None
}
