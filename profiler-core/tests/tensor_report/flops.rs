//! Compares numbers of operations with those counted by torch.

use std::fs;

use mlprof_core::hook::{DType, TensorShape};
use mlprof_core::tensor::flops;
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
        "aten::mkldnn_rnn_layer",
        "aten::mkldnn_rnn_layer_backward",
        "aten::_cudnn_rnn",
        "aten::_cudnn_rnn_backward",
        "aten::_lstm_mps",
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
    // candle's convolutions have these inputs: input, weight, no bias, stride, padding, dilation,
    // groups.
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let one = |value: i64| TensorShape::Integers(vec![value]);
    let mut inputs = vec![tensor(&[16, 3, 28, 28]), tensor(&[4, 3, 3, 3]), TensorShape::NotATensor];
    inputs.extend([one(2), one(1), one(1), one(1)]);
    let expected = 2 * 16 * (14 * 14) * (4 * 3 * 3 * 3);
    assert_eq!(flops("candle::conv2d", &inputs), Some(expected));
    // A transposed convolution multiplies its weight once per position of its input.
    let mut inputs = vec![tensor(&[16, 4, 14, 14]), tensor(&[4, 3, 3, 3]), TensorShape::NotATensor];
    inputs.extend([one(2), one(1), one(1), one(1)]);
    assert_eq!(flops("candle::conv_transpose2d", &inputs), Some(expected));
    // The op itself has no operations, because the ops that it calls are counted.
    let matrices = [tensor(&[2, 3, 4]), tensor(&[4, 5])];
    assert_eq!(flops("candle::broadcast_matmul", &matrices), None);
    assert_eq!(flops("burn::conv2d_backward", &matrices), None);
}

#[test]
fn recurrent_layers_multiply_every_step_with_their_weights() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let other = TensorShape::NotATensor;
    // The layer has 7 steps, a batch of 3, 5 inputs and 11 hidden units. An LSTM has 4 gates, a GRU
    // 3, and a plain RNN 1.
    for gates in [4, 3, 1] {
        let (inputs, hidden) = (tensor(&[gates * 11, 5]), tensor(&[gates * 11, 11]));
        let bias = tensor(&[gates * 11]);
        let per_row_and_step = 2 * gates.cast_unsigned() * 11 * (5 + 11);
        let expected = 7 * 3 * per_row_and_step;
        let layer =
            [tensor(&[7, 3, 5]), inputs.clone(), hidden.clone(), bias.clone(), bias.clone()];
        assert_eq!(flops("aten::mkldnn_rnn_layer", &layer), Some(expected));
        assert_eq!(flops("aten::mkldnn_rnn_layer_backward", &layer), Some(2 * expected));
        let weights = vec![inputs, hidden, bias.clone(), bias];
        let fused = [tensor(&[7, 3, 5]), TensorShape::List(weights.clone()), other.clone()];
        for op in ["aten::_cudnn_rnn", "aten::miopen_rnn"] {
            assert_eq!(flops(op, &fused), Some(expected), "{op}");
            assert_eq!(flops(&format!("{op}_backward"), &fused), Some(2 * expected), "{op}");
        }
        // The packed sequence has 13 of 21 possible rows.
        let packed = [tensor(&[13, 5]), TensorShape::List(weights.clone())];
        assert_eq!(flops("aten::_cudnn_rnn", &packed), Some(13 * per_row_and_step));
        let states = TensorShape::List(vec![tensor(&[1, 3, 11]), tensor(&[1, 3, 11])]);
        let lstm = [tensor(&[7, 3, 5]), states, TensorShape::List(weights)];
        if gates == 4 {
            assert_eq!(flops("aten::_lstm_mps", &lstm), Some(expected));
        }
        // This op consists of ops that are counted themselves.
        assert_eq!(flops("aten::lstm", &lstm), None);
    }
    // There are two layers with both directions. The inputs of the second layer are the outputs of
    // both directions.
    let mut weights = Vec::new();
    for inputs in [5, 2 * 11] {
        for _direction in 0..2 {
            weights.extend([
                tensor(&[44, inputs]),
                tensor(&[44, 11]),
                tensor(&[44]),
                tensor(&[44]),
            ]);
        }
    }
    let deep = [tensor(&[7, 3, 5]), TensorShape::List(weights)];
    let expected = 7 * 3 * 2 * 44 * (2 * (5 + 11) + 2 * (22 + 11));
    assert_eq!(flops("aten::_cudnn_rnn", &deep), Some(expected));
    // The op is only element-wise, because the matrix products of the gates are separate ops.
    let cell = [tensor(&[3, 44]), tensor(&[3, 44]), tensor(&[3, 11])];
    assert_eq!(flops("aten::_thnn_fused_lstm_cell", &cell), None);
    // A projection of the output is one more matrix.
    let projected = vec![tensor(&[44, 5]), tensor(&[44, 6]), tensor(&[6, 11])];
    let projected = [tensor(&[7, 3, 5]), TensorShape::List(projected)];
    let expected = 7 * 3 * 2 * (44 * 5 + 44 * 6 + 6 * 11);
    assert_eq!(flops("aten::_cudnn_rnn", &projected), Some(expected));
}

#[test]
fn a_transposed_convolution_multiplies_every_place_of_its_input() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let integers = |values: &[i64]| TensorShape::Integers(values.to_vec());
    // The numbers of input and output channels are equal, so only the flag shows which kind it is.
    let options = |transposed: i64| {
        [integers(&[2, 2]), integers(&[1, 1]), integers(&[1, 1]), integers(&[transposed])]
    };
    let rest = [integers(&[0, 0]), integers(&[1])];
    let forward = |transposed| {
        let mut inputs =
            vec![tensor(&[2, 6, 8, 8]), tensor(&[6, 6, 3, 3]), TensorShape::NotATensor];
        inputs.extend(options(transposed));
        inputs.extend(rest.clone());
        flops("aten::convolution", &inputs)
    };
    let per_place = 2 * 2 * 6 * 6 * 9;
    assert_eq!(forward(1), Some(8 * 8 * per_place));
    assert_eq!(forward(0), Some(4 * 4 * per_place));
    // The backward pass counts twice, for the input and for the weight. The forward pass produced
    // 15 × 15 from 8 × 8, and the 8 × 8 positions count.
    let backward = |mask: &[i64]| {
        let mut inputs =
            vec![tensor(&[2, 6, 15, 15]), tensor(&[2, 6, 8, 8]), tensor(&[6, 6, 3, 3])];
        inputs.push(integers(&[6]));
        inputs.extend(options(1));
        inputs.extend(rest.clone());
        inputs.push(integers(mask));
        flops("aten::convolution_backward", &inputs)
    };
    assert_eq!(backward(&[1, 1, 1]), Some(2 * 8 * 8 * per_place));
    assert_eq!(backward(&[0, 1, 1]), Some(8 * 8 * per_place));
    // In burn, the weight of a grouped convolution has the output channels of one group.
    let grouped = [tensor(&[2, 6, 8, 8]), tensor(&[6, 2, 3, 3])];
    assert_eq!(flops("burn::conv_transpose2d", &grouped), Some(2 * 2 * 8 * 8 * 6 * 2 * 9));
}

#[test]
fn ops_of_libraries_count_as_the_convolution_that_calls_them() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let two = |value: i64| TensorShape::Integers(vec![value, value]);
    let one = |value: i64| TensorShape::Integers(vec![value]);
    let (input, weight, none) =
        (tensor(&[2, 3, 8, 8]), tensor(&[4, 3, 3, 3]), TensorShape::NotATensor);
    // Stride 2, padding 1 and dilation 1 give 4 × 4 positions.
    let expected = Some(2 * 2 * 4 * 4 * (4 * 3 * 3 * 3));
    let (stride, padding, dilation) = (two(2), two(1), two(1));
    let of = |name: &str, options: &[&TensorShape]| {
        let inputs = [&input, &weight].into_iter().chain(options.iter().copied()).cloned();
        flops(name, &inputs.collect::<Vec<_>>())
    };
    let all = [&none, &stride, &padding, &dilation, &one(0), &two(0), &one(1)];
    assert_eq!(of("aten::convolution", &all), expected);
    assert_eq!(of("aten::_convolution", &all), expected);
    assert_eq!(of("aten::cudnn_convolution", &[&padding, &stride, &dilation]), expected);
    assert_eq!(of("aten::miopen_convolution", &[&none, &padding, &stride, &dilation]), expected);
    assert_eq!(of("aten::_slow_conv2d_forward", &[&two(3), &none, &stride, &padding]), expected);
}

#[test]
fn attention_of_libraries_has_its_heads_before_the_last_dimension() {
    let tensor = |sizes: &[i64]| TensorShape::Tensor(DType::Float32, sizes.to_vec());
    let one = |value: i64| TensorShape::Integers(vec![value]);
    let none = TensorShape::NotATensor;
    // There are 2 sequences, 5 queries and 7 keys, and 3 heads of size 8.
    let (forward, backward) = (2 * (2 * 2 * 3 * 5 * 7 * 8), 5 * (2 * 2 * 3 * 5 * 7 * 8));
    let dense = [tensor(&[2, 5, 3, 8]), tensor(&[2, 7, 3, 8]), tensor(&[2, 7, 3, 8])];
    let packed = [tensor(&[9, 3, 8]), tensor(&[12, 3, 8]), tensor(&[12, 3, 8])];
    let lengths = [tensor(&[3]), tensor(&[3]), one(5), one(7)];
    let join = |parts: &[&[TensorShape]]| parts.concat();
    let (gap, gradient) = ([none.clone(), none.clone()], [tensor(&[2, 5, 3, 8])]);
    for (op, bias) in [("flash", &gap[..0]), ("efficient", &gap[..1])] {
        let of = |direction: &str, inputs: Vec<TensorShape>| {
            flops(&format!("aten::_{op}_attention_{direction}"), &inputs)
        };
        assert_eq!(of("forward", join(&[&dense, bias, &gap])), Some(forward));
        assert_eq!(of("forward", join(&[&packed, bias, &lengths])), Some(forward));
        assert_eq!(of("backward", join(&[&gradient, &dense, &gap, &gap])), Some(backward));
        assert_eq!(of("backward", join(&[&gradient, &packed, &gap, &lengths])), Some(backward));
        assert_eq!(of("forward", packed.to_vec()), None);
    }
}
