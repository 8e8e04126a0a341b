//! Bytes of each family of ops, against values computed by hand.

use super::bytes;
use crate::{DType, TensorShape};
use DType::{BFloat16, Bool, Float16, Float32, Float64, Int64};

const NOTHING: TensorShape = TensorShape::NotATensor;

fn of(dtype: DType, sizes: &[i64]) -> TensorShape {
    TensorShape::Tensor(dtype, sizes.to_vec())
}

fn f32(sizes: &[i64]) -> TensorShape {
    of(Float32, sizes)
}

fn integers(values: &[i64]) -> TensorShape {
    TensorShape::Integers(values.to_vec())
}

fn list(sizes: &[&[i64]]) -> TensorShape {
    TensorShape::List(sizes.iter().map(|sizes| f32(sizes)).collect())
}

#[track_caller]
fn expect(name: &str, inputs: &[TensorShape], expected: impl Into<Option<u64>>) {
    assert_eq!(bytes(name, inputs), expected.into(), "{name} {inputs:?}");
}

#[test]
fn elementwise_ops_read_each_input_and_write_the_common_size() {
    expect("aten::add", &[f32(&[2, 3]), f32(&[2, 3]), NOTHING], 4 * (6 + 6 + 6));
    expect("aten::add", &[f32(&[4, 1]), f32(&[3])], 4 * (4 + 3 + 12));
    expect("aten::add_", &[f32(&[2, 3]), f32(&[3])], 4 * (6 + 3 + 6));
    expect("aten::mul", &[f32(&[8]), of(Float64, &[])], 4 * 8 + 8 + 4 * 8);
    expect("aten::add", &[of(BFloat16, &[8]), f32(&[8])], 2 * 8 + 4 * 8 + 4 * 8);
    expect("aten::add", &[of(BFloat16, &[8]), of(Float16, &[8])], 16 + 16 + 32);
    expect("aten::add", &[of(Int64, &[8]), f32(&[8])], 64 + 32 + 32);
    expect("aten::add", &[f32(&[2, 3]), f32(&[4])], None);
    expect("aten::gelu", &[of(BFloat16, &[4, 5]), NOTHING], 2 * 20 * 2);
    expect("aten::exp", &[of(Int64, &[4])], None);
    expect("aten::abs", &[of(Int64, &[4])], 64);
    expect("aten::add", &[of(DType::Quantized, &[4])], None);
    expect("aten::eq", &[f32(&[2, 3]), f32(&[2, 3])], 24 + 24 + 6);
    expect("aten::where", &[of(Bool, &[6]), f32(&[6]), f32(&[])], 6 + 24 + 4 + 24);
    expect("aten::where", &[of(Bool, &[6])], None);
    expect("aten::addcmul_", &[f32(&[6]), f32(&[6]), f32(&[6]), NOTHING], 4 * 24);
    expect("aten::threshold_backward", &[f32(&[6]), f32(&[6]), NOTHING], 3 * 24);
    expect("aten::native_dropout", &[f32(&[6]), NOTHING, NOTHING], 24 + 24 + 6);
    expect("aten::_softmax", &[f32(&[2, 3]), NOTHING, NOTHING], 48);
    expect("candle::broadcast_add", &[f32(&[4, 3]), f32(&[3])], 4 * (12 + 3 + 12));
    expect("candle::affine", &[f32(&[6])], 48);
    expect("candle::eq", &[f32(&[6]), f32(&[6])], 24 + 24 + 6);
    expect("candle::where_cond", &[of(DType::UInt8, &[6]), f32(&[6]), f32(&[6])], 6 + 3 * 24);
    expect("burn::mul_scalar", &[f32(&[6])], 48);
    expect("burn::relu_backward", &[f32(&[6]), f32(&[6])], 3 * 24);
    expect("burn::equal", &[f32(&[6]), f32(&[6])], None);
    expect("burn::mask_fill", &[f32(&[6]), of(Bool, &[6])], None);
}

#[test]
fn views_and_allocations_move_nothing() {
    for view in ["view", "t", "expand", "slice", "as_strided", "detach_", "empty", "empty_like"] {
        expect(&format!("aten::{view}"), &[f32(&[2, 3])], 0);
    }
    expect("candle::narrow", &[f32(&[6])], 0);
    expect("burn::swap_dims", &[f32(&[2, 3])], 0);
    // These ops copy if the values are not contiguous.
    for op in ["aten::reshape", "aten::contiguous", "candle::reshape", "burn::reshape"] {
        expect(op, &[f32(&[2, 3])], None);
    }
}

#[test]
fn ops_that_move_and_fill_values() {
    expect("aten::copy_", &[of(BFloat16, &[6]), f32(&[6]), NOTHING], 12 + 24);
    expect("aten::copy_", &[f32(&[2, 6]), f32(&[6]), NOTHING], 48 + 24);
    expect("aten::zero_", &[f32(&[6])], 24);
    expect("aten::fill_", &[f32(&[6]), NOTHING], 24);
    expect("aten::cat", &[list(&[&[4, 1], &[4, 3]]), NOTHING], 2 * 4 * 16);
    expect("candle::cat", &[list(&[&[4, 1], &[4, 3]])], 2 * 4 * 16);
    expect("burn::cat", &[f32(&[4, 1]), f32(&[4, 3])], 2 * 4 * 16);
    expect("aten::_local_scalar_dense", &[f32(&[])], 4);
    expect("candle::to_vec2", &[f32(&[2, 3])], 48);
    expect("candle::zeros_like", &[f32(&[2, 3])], 24);
}

#[test]
fn lookups_read_one_row_per_index_and_no_more_than_the_table() {
    let (table, few) = (f32(&[100, 8]), of(Int64, &[2, 3]));
    let expected = 8 * 6 + 4 * 6 * 8 + 4 * 6 * 8;
    expect("aten::embedding", &[table.clone(), few.clone(), NOTHING], expected);
    expect("candle::embedding", &[table.clone(), few.clone()], expected);
    expect("burn::embedding", &[table, few], expected);
    let many = of(Int64, &[50]);
    let expected = 8 * 50 + 4 * 10 * 8 + 4 * 50 * 8;
    expect("aten::embedding", &[f32(&[10, 8]), many.clone()], expected);
    expect("aten::index_select", &[f32(&[10, 8]), integers(&[0]), many.clone()], expected);
    let by_last = 8 * 50 + 4 * 8 * 10 + 4 * 50 * 10;
    expect("aten::index_select", &[f32(&[10, 8]), integers(&[-1]), many.clone()], by_last);
    expect("aten::index_select", &[f32(&[10, 8]), NOTHING, many.clone()], None);
    expect("candle::index_select", &[f32(&[10]), of(Int64, &[5])], 8 * 5 + 4 * 5 + 4 * 5);
    let picked = of(Int64, &[4, 1]);
    expect("aten::gather", &[f32(&[4, 10]), NOTHING, picked.clone()], 8 * 4 + 4 * 4 + 4 * 4);
    expect("candle::gather", &[f32(&[4, 10]), picked], 8 * 4 + 4 * 4 + 4 * 4);
}

#[test]
fn matrix_products_read_both_factors_and_write_the_product() {
    let bf16 = |sizes: &[i64]| of(BFloat16, sizes);
    expect("aten::mm", &[f32(&[2, 3]), f32(&[3, 5])], 4 * (6 + 15 + 10));
    expect("aten::mv", &[f32(&[4, 3]), f32(&[3])], 4 * (12 + 3 + 4));
    expect("aten::dot", &[f32(&[3]), f32(&[3])], 4 * 7);
    expect("aten::bmm", &[f32(&[7, 2, 3]), f32(&[7, 3, 5])], 4 * 7 * (6 + 15 + 10));
    let inputs = [bf16(&[5]), bf16(&[2, 3]), bf16(&[3, 5]), NOTHING, NOTHING];
    expect("aten::addmm", &inputs, 2 * (5 + 6 + 15 + 10));
    expect("aten::mm", &[f32(&[2, 3]), f32(&[4, 5])], None);
    expect("candle::matmul", &[f32(&[7, 2, 3]), f32(&[7, 3, 5])], 4 * 7 * 31);
    expect("burn::matmul", &[f32(&[7, 2, 3]), f32(&[1, 3, 5])], 4 * (42 + 15 + 70));
    let linear = [f32(&[7, 2, 3]), f32(&[3, 5]), f32(&[5])];
    expect("burn::linear", &linear, 4 * (42 + 15 + 5 + 70));
    expect("burn::linear_x_backward", &[f32(&[3, 5]), f32(&[7, 5])], 4 * (15 + 35 + 21));
    expect("burn::linear_weight_backward", &[f32(&[7, 3]), f32(&[7, 5])], 4 * (21 + 35 + 15));
    expect("burn::linear_bias_backward", &[f32(&[7, 5])], 4 * (35 + 5));
}

#[test]
fn convolutions_and_their_gradients() {
    let options = |transposed: i64| {
        [
            integers(&[2, 2]),
            integers(&[1, 1]),
            integers(&[1, 1]),
            integers(&[transposed]),
            integers(&[0, 0]),
            integers(&[1]),
        ]
    };
    let (input, weight, bias) = (f32(&[2, 3, 8, 8]), f32(&[6, 3, 3, 3]), f32(&[6]));
    let output = 2 * 6 * 4 * 4;
    let of_all = 4 * (2 * 3 * 64 + 6 * 27 + 6 + output);
    let mut inputs = vec![input.clone(), weight.clone(), bias];
    inputs.extend(options(0));
    expect("aten::convolution", &inputs, of_all);
    let mut burn = inputs[..6].to_vec();
    burn.push(integers(&[1]));
    expect("burn::conv2d", &burn, of_all);
    burn[2] = NOTHING;
    expect("candle::conv2d", &burn, of_all - 4 * 6);
    // Transposed: (8 - 1) * 2 - 2 + 2 + 1 = 15.
    let mut transposed = vec![f32(&[2, 6, 8, 8]), weight.clone(), NOTHING];
    transposed.extend(options(1));
    let grown = 2 * 3 * 15 * 15;
    expect("aten::convolution", &transposed, 4 * (2 * 6 * 64 + 6 * 27 + grown));
    transposed.remove(6);
    expect("burn::conv_transpose2d", &transposed, 4 * (2 * 6 * 64 + 6 * 27 + grown));
    let gradient = f32(&[2, 6, 4, 4]);
    let mut backward = vec![gradient.clone(), input.clone(), weight.clone(), integers(&[6])];
    backward.extend(options(0));
    backward.push(integers(&[0, 1, 1]));
    let of_weight = 4 * (output + 2 * 3 * 64 + 6 * 27 + 6);
    expect("aten::convolution_backward", &backward, of_weight);
    backward[10] = integers(&[1, 1, 0]);
    let of_both = 4 * (output + 2 * (2 * 3 * 64 + 6 * 27));
    expect("aten::convolution_backward", &backward, of_both);
    let burn = [input, weight, gradient];
    expect("burn::conv2d_weight_backward", &burn, of_weight - 24);
    expect("burn::conv2d_x_backward", &burn, of_weight - 24);
}

#[test]
fn attention_does_not_count_scores() {
    let (query, key, value) = (f32(&[2, 4, 5, 8]), f32(&[2, 4, 7, 8]), f32(&[2, 4, 7, 6]));
    let once = 2 * 4 * (5 * 8 + 7 * 8 + 7 * 6);
    let output = 2 * 4 * 5 * 6;
    let mut inputs = vec![query, key, value, NOTHING, NOTHING];
    expect("aten::_scaled_dot_product_flash_attention", &inputs, 4 * (once + output));
    inputs[3] = f32(&[5, 7]);
    expect("burn::attention", &inputs, 4 * (once + output + 35));
    inputs.insert(0, f32(&[2, 4, 5, 6]));
    inputs[4] = NOTHING;
    let name = "aten::_scaled_dot_product_flash_attention_backward";
    expect(name, &inputs, 4 * 2 * (once + output));
}

#[test]
fn normalisations_reductions_and_losses() {
    let rows = f32(&[4, 8]);
    let inputs = [rows.clone(), integers(&[8]), f32(&[8]), f32(&[8]), NOTHING];
    expect("aten::native_layer_norm", &inputs, 4 * (32 + 8 + 8 + 32));
    expect("candle::rms_norm", &[rows.clone(), f32(&[8])], 4 * (32 + 8 + 32));
    let images = f32(&[2, 3, 4, 4]);
    let channel = f32(&[3]);
    let inputs = [&images, &channel, &channel, &channel, &channel, &NOTHING].map(Clone::clone);
    expect("aten::native_batch_norm", &inputs, 4 * (96 + 4 * 3 + 96));
    let (saved, of_shape) = (f32(&[4, 1]), integers(&[8]));
    let inputs =
        [&rows, &rows, &of_shape, &saved, &saved, &f32(&[8]), &f32(&[8])].map(Clone::clone);
    expect("aten::native_layer_norm_backward", &inputs, 4 * (32 + 32 + 4 + 4 + 8 + 32));
    expect("aten::sum", &[rows.clone(), integers(&[0])], 4 * 33);
    expect("aten::max", &[rows.clone(), rows.clone()], 4 * 3 * 32);
    expect("candle::mean_all", std::slice::from_ref(&rows), 4 * 33);
    expect("burn::sum_dim", std::slice::from_ref(&rows), 4 * 33);
    let classes = of(Int64, &[4]);
    let inputs = [rows.clone(), classes.clone(), NOTHING, NOTHING];
    expect("aten::nll_loss_forward", &inputs, 4 * 4 + 8 * 4 + 4);
    expect("aten::nll_loss_backward", &[f32(&[]), rows.clone(), classes], 4 + 32 + 4 * 32);
    expect("aten::mse_loss", &[rows.clone(), rows.clone(), NOTHING], 4 * 65);
    expect("aten::mse_loss_backward", &[f32(&[]), rows.clone(), rows], 4 * (1 + 3 * 32));
}

#[test]
fn optimizers_write_parameters_and_states() {
    let (one, steps) = (list(&[&[8], &[2, 2]]), list(&[&[], &[]]));
    expect("aten::_foreach_add_", &[one.clone(), one.clone(), NOTHING], 4 * 3 * 12);
    expect("aten::_foreach_mul_", &[one.clone(), NOTHING], 4 * 2 * 12);
    expect("aten::_foreach_zero_", std::slice::from_ref(&one), 4 * 12);
    expect("aten::_foreach_copy_", &[one.clone(), one.clone()], 4 * 2 * 12);
    expect("aten::_foreach_norm", &[one.clone(), NOTHING], 4 * (12 + 2));
    let empty = TensorShape::List(Vec::new());
    let adam = [&one, &one, &one, &one, &empty, &steps, &NOTHING].map(Clone::clone);
    expect("aten::_fused_adam_", &adam, 4 * (4 * 12 + 2 + 3 * 12));
    expect("aten::_fused_sgd_", &[one.clone(), one.clone(), one], 4 * (3 * 12 + 2 * 12));
}

#[test]
fn ops_without_a_rule_have_no_bytes() {
    for name in ["aten::nonzero", "aten::linear", "vllm::all_reduce", "candle::backward", "x"] {
        expect(name, &[f32(&[2, 3])], None);
    }
    expect("aten::add", &[f32(&[i64::MAX, 8]), f32(&[8])], None);
    expect("aten::add", &[f32(&[-1]), f32(&[1])], None);
    expect("aten::add", &[], None);
}

/// Values of TraceLens 1.0 for a vision transformer on an H100, in units of 2^20 bytes. The page
/// `docs/dev/bytes-validation.md` explains the differences.
#[test]
fn values_agree_with_tracelens() {
    let bf16 = |sizes: &[i64]| of(BFloat16, sizes);
    let added = |bias: i64, left: [i64; 2], right: [i64; 2]| {
        bytes("aten::addmm", &[bf16(&[bias]), bf16(&left), bf16(&right)])
    };
    let add = |other: i64| bytes("aten::add", &[bf16(&[4, 197, 768]), bf16(&[other, 197, 768])]);
    let heads = bf16(&[4, 12, 197, 64]);
    let attention = bytes(
        "aten::_scaled_dot_product_flash_attention",
        &[heads.clone(), heads.clone(), heads, NOTHING, NOTHING, NOTHING, NOTHING],
    );
    let cases = [
        (added(768, [788, 768], [768, 768]), 3.435_058_593_75),
        (added(3072, [788, 768], [768, 3072]), 10.277_343_75),
        (added(768, [788, 3072], [3072, 768]), 10.272_949_218_75),
        (added(768, [4, 768], [768, 768]), 1.138_183_593_75),
        (add(4), 3.462_890_625),
        (add(1), 2.597_167_968_75),
        (attention, 4.617_187_5),
    ];
    for (index, (own, theirs)) in cases.into_iter().enumerate() {
        let own = own.map(|bytes| bytes as f64 / f64::from(1 << 20));
        assert_eq!(own, Some(theirs), "case {index}");
    }
    // TraceLens omits the bias.
    let mut convolution = vec![bf16(&[4, 3, 224, 224]), bf16(&[768, 3, 16, 16]), bf16(&[768])];
    convolution.extend([&[16, 16][..], &[0, 0], &[1, 1], &[0], &[0, 0], &[1]].map(integers));
    let bias = 2 * 768;
    let theirs = (3.421_875 * f64::from(1 << 20)) as u64;
    expect("aten::convolution", &convolution, theirs + bias);
}
