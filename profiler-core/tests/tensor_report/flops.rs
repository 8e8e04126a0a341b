//! Operations against those that torch counted.

use std::fs;

use profiler_core::hook::{DType, TensorShape};
use profiler_core::tensor::flops;
use serde_json::Value;

fn sizes(value: &Value) -> Vec<i64> {
    value.as_array().expect("a list").iter().map(|size| size.as_i64().expect("a size")).collect()
}

fn input(value: &Value) -> TensorShape {
    match (value.get("tensor"), value.get("integers")) {
        (Some(tensor), _) => TensorShape::Tensor(DType::Float32, sizes(tensor)),
        (_, Some(integers)) => TensorShape::Integers(sizes(integers)),
        _ => TensorShape::NotATensor,
    }
}

#[test]
fn operations_are_those_that_torch_counts() {
    let json = fs::read_to_string(crate::golden::folder().join("flops.json")).expect("the cases");
    let cases: Vec<Value> = serde_json::from_str(&json).expect("the cases");
    assert!(cases.len() > 60, "only {} cases", cases.len());
    for case in &cases {
        let name = case["name"].as_str().expect("a name");
        let inputs: Vec<_> = case["inputs"].as_array().expect("inputs").iter().map(input).collect();
        assert_eq!(flops(name, &inputs), case["flops"].as_u64(), "{case}");
    }
}

#[test]
fn inputs_that_make_no_sense_have_no_operations() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let ops = [
        "aten::mm",
        "aten::addmm",
        "aten::convolution",
        "aten::convolution_backward",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_backward",
        "burn::matmul",
        "burn::conv2d",
        "burn::conv2d_x_backward",
        "burn::conv_transpose2d",
        "candle::linear",
    ];
    let awkward = [
        vec![],
        vec![TensorShape::NotATensor; 3],
        vec![tensor(&[]); 4],
        vec![tensor(&[i64::MAX, i64::MAX]), tensor(&[i64::MAX, i64::MAX]), tensor(&[1])],
        vec![tensor(&[-1, 2, 3, 4]), tensor(&[2, 2, 3, 4]), tensor(&[-1, 2, 3, 4])],
        vec![
            tensor(&[1, 1, 2, 2]),
            tensor(&[1, 1, 9, 9]),
            TensorShape::NotATensor,
            TensorShape::Integers(vec![0]),
            TensorShape::Integers(vec![i64::MAX]),
            TensorShape::Integers(vec![i64::MAX]),
        ],
        vec![TensorShape::List(vec![tensor(&[2, 2])]), tensor(&[2, 2])],
    ];
    for op in ops {
        for inputs in &awkward {
            let count = flops(op, inputs);
            assert!(count.is_none_or(|count| count < 1_000_000), "{op} {inputs:?} {count:?}");
        }
    }
    assert_eq!(flops("aten::mm", &[tensor(&[2, 3]), tensor(&[4, 5])]), None, "they do not fit");
    assert_eq!(flops("aten::mm", &[tensor(&[0, 3]), tensor(&[3, 5])]), Some(0), "nothing to do");
}

#[test]
fn vectors_and_gradients_of_other_frameworks() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    assert_eq!(flops("aten::mv", &[tensor(&[4, 3]), tensor(&[3])]), Some(24));
    assert_eq!(flops("aten::dot", &[tensor(&[3]), tensor(&[3])]), Some(6));
    assert_eq!(flops("aten::addmm_", &[tensor(&[2]), tensor(&[2, 3]), tensor(&[3, 2])]), Some(24));
    let (x, weight, output) = ([2, 3, 8, 8], [4, 3, 3, 3], [2, 4, 6, 6]);
    let gradient = [tensor(&x), tensor(&weight), tensor(&output)];
    let expected = Some(2 * 2 * 36 * 4 * 3 * 9);
    for op in ["burn::conv2d_x_backward", "burn::conv2d_weight_backward"] {
        assert_eq!(flops(op, &gradient), expected, "{op}");
    }
    assert_eq!(flops("burn::conv2d_bias_backward", &gradient), None);
    let (weight, rows) = (tensor(&[7, 11]), tensor(&[3, 5, 11]));
    let expected = Some(2 * 3 * 5 * 7 * 11);
    assert_eq!(flops("burn::linear_x_backward", &[weight, rows.clone()]), expected);
    assert_eq!(flops("burn::linear_weight_backward", &[tensor(&[3, 5, 7]), rows]), expected);
}

#[test]
fn padding_may_differ_from_side_to_side() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let convolution = |padding: &[i64]| {
        let integers = |values: &[i64]| TensorShape::Integers(values.to_vec());
        let inputs = [
            tensor(&[1, 1, 8, 8]),
            tensor(&[1, 1, 3, 3]),
            TensorShape::NotATensor,
            integers(&[1, 1]),
            integers(padding),
            integers(&[1, 1]),
            integers(&[1]),
        ];
        flops("burn::conv2d", &inputs)
    };
    assert_eq!(convolution(&[1, 0]), Some(2 * 9 * 8 * 6));
    assert_eq!(convolution(&[2, 0, 0, 0]), Some(2 * 9 * 8 * 6));
    assert_eq!(convolution(&[1, 2, 0, 1]), Some(2 * 9 * 9 * 7));
}

#[test]
fn one_number_may_stand_for_all_dimensions() {
    // candle's convolutions: input, weight, no bias, stride, padding, dilation, groups.
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let one = |value: i64| TensorShape::Integers(vec![value]);
    let mut inputs = vec![tensor(&[16, 3, 28, 28]), tensor(&[4, 3, 3, 3]), TensorShape::NotATensor];
    inputs.extend([one(2), one(1), one(1), one(1)]);
    let expected = 2 * 16 * (14 * 14) * (4 * 3 * 3 * 3);
    assert_eq!(flops("candle::conv2d", &inputs), Some(expected));
    // A transposed one multiplies its weight once per place of its input.
    let mut inputs = vec![tensor(&[16, 4, 14, 14]), tensor(&[4, 3, 3, 3]), TensorShape::NotATensor];
    inputs.extend([one(2), one(1), one(1), one(1)]);
    assert_eq!(flops("candle::conv_transpose2d", &inputs), Some(expected));
    // No op of its own: what it calls is counted.
    let matrices = [tensor(&[2, 3, 4]), tensor(&[4, 5])];
    assert_eq!(flops("candle::broadcast_matmul", &matrices), None);
    assert_eq!(flops("burn::conv2d_backward", &matrices), None);
}
