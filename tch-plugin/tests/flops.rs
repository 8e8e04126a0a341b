//! Compares the floating-point operations of layers, as torch runs them, with manual counts.

mod turn;

use std::sync::Arc;

use mlprof_core::report::tensor::{KeyAverage, ModuleStatistics, TensorReport};
use mlprof_core::{ActionKind, Report, TensorProfiler};
use mlprof_tch::prelude::*;
use tch::nn::{self, ConvTransposeConfig, Module, RNN, RNNConfig, VarStore};
use tch::{Device, Kind, Tensor, kind::FLOAT_CPU};
use turn::turn;

/// Operation counts of one forward and one backward pass: over all rows, and of the only module.
struct Counted {
    report: TensorReport,
    forward: u64,
    backward: u64,
}

impl Counted {
    /// Returns the rows of ops with operation counts, and their numbers of calls.
    fn ops(&self) -> Vec<(&str, u64, u64)> {
        let rows = self.report.key_averages.rows.iter().filter(|row| row.flops > 0);
        rows.map(|row: &KeyAverage| (row.name.as_str(), row.calls, row.flops)).collect()
    }

    /// Asserts that every operation is counted in exactly one row and in the module.
    fn is(&self, forward: u64, backward: u64, case: &str) {
        let all: u64 = self.ops().iter().map(|(_, _, flops)| flops).sum();
        let found = (self.forward, self.backward, all);
        assert_eq!(found, (forward, backward, forward + backward), "{case}: {:?}", self.ops());
    }
}

fn count(work: impl FnOnce() -> Tensor) -> Counted {
    let _turn = turn();
    let profiler = Arc::new(TensorProfiler::new().without_schedule().export_trace(false));
    let active = activate(profiler.clone());
    work().sum(Kind::Float).backward();
    profiler.teardown(None);
    drop(active);
    let Some(Report::Tensor(report)) = profiler.report() else { panic!("no report") };
    assert!(report.key_averages.rows.iter().any(|row| row.kind == ActionKind::Op), "no ops");
    let [module]: &[ModuleStatistics] = &report.modules else { panic!("{:?}", report.modules) };
    let (forward, backward) = (module.total.forward_flops, module.total.backward_flops);
    Counted { report, forward, backward }
}

/// Each input element is multiplied with each weight of its group, independently of the output
/// position. Stride, padding and output padding therefore do not change the count. The weight has
/// the shape `[in, out / groups, …]`.
#[test]
fn transposed_convolutions_multiply_each_place_of_their_input() {
    // The columns are stride, padding, output padding, dilation and groups.
    let cases = [
        (1, 0, 0, 1, 1),
        (2, 0, 0, 1, 1),
        (2, 1, 1, 1, 1),
        (3, 1, 2, 1, 1),
        (2, 1, 1, 2, 1),
        (1, 1, 0, 1, 2),
        (2, 1, 1, 1, 4),
        (3, 0, 1, 2, 4),
    ];
    let (batch, inputs, outputs, kernel, height, width) =
        (3_u64, 8_u64, 12_u64, 3_u64, 5_u64, 7_u64);
    for (stride, padding, output_padding, dilation, groups) in cases {
        let store = VarStore::new(Device::Cpu);
        let config = ConvTransposeConfig {
            stride,
            padding,
            output_padding,
            dilation,
            groups,
            ..Default::default()
        };
        let size = |size: u64| size.cast_signed();
        let (from, to) = (size(inputs), size(outputs));
        let layer = nn::conv_transpose2d(store.root(), from, to, size(kernel), config);
        let layer = layer.profile_layer("up");
        let images = Tensor::rand([size(batch), from, size(height), size(width)], FLOAT_CPU);
        let images = images.set_requires_grad(true);
        let counted = count(|| layer.forward(&images));
        let weights = inputs * (outputs / groups.cast_unsigned()) * kernel * kernel;
        let forward = 2 * batch * height * width * weights;
        // Backward computes the gradients of the input and of the weights.
        counted.is(forward, 2 * forward, &format!("{config:?}"));
    }
}

const STEPS: u64 = 6;
const BATCH: u64 = 4;
const INPUTS: u64 = 10;
const HIDDEN: u64 = 16;

/// Returns the operations of a recurrent layer. In each step, each row of the batch is multiplied
/// with the input weights and with the weights of the previous state.
fn recurrent(gates: u64, layers: u64, directions: u64) -> u64 {
    let layer = |inputs: u64| 2 * STEPS * BATCH * directions * gates * HIDDEN * (inputs + HIDDEN);
    layer(INPUTS) + (1..layers).map(|_| layer(directions * HIDDEN)).sum::<u64>()
}

/// oneDNN runs a single-precision LSTM as one op. Other recurrent layers consist of matrix
/// products: one for the inputs of all steps and one for the state of each step. The initial state
/// has no gradient then.
#[test]
fn recurrent_layers_count_each_product_once() {
    for (layers, is_bidirectional) in [(1, false), (2, false), (1, true), (2, true)] {
        for (gates, kind) in [(4, Kind::Float), (4, Kind::Double), (3, Kind::Float)] {
            let mut store = VarStore::new(Device::Cpu);
            let (inputs, hidden) = (INPUTS.cast_signed(), HIDDEN.cast_signed());
            let config = RNNConfig {
                num_layers: layers,
                bidirectional: is_bidirectional,
                ..Default::default()
            };
            let lstm = nn::lstm(store.root(), inputs, hidden, config).profile_layer("lstm");
            let gru = nn::gru(store.root(), inputs, hidden, config).profile_layer("gru");
            if kind == Kind::Double {
                store.double();
            }
            let [steps, batch] = [STEPS, BATCH].map(u64::cast_signed);
            let sequence = Tensor::rand([batch, steps, inputs], (kind, Device::Cpu));
            let sequence = sequence.set_requires_grad(true);
            let counted = match gates {
                4 => count(|| lstm.seq(&sequence).0),
                _ => count(|| gru.seq(&sequence).0),
            };
            let (layers, directions) = (layers.cast_unsigned(), 1 + u64::from(is_bidirectional));
            let forward = recurrent(gates, layers, directions);
            let is_fused = (gates, kind) == (4, Kind::Float);
            let names: Vec<_> = counted.ops().iter().map(|(name, ..)| (*name).to_owned()).collect();
            assert_eq!(names.contains(&"aten::mkldnn_rnn_layer".to_owned()), is_fused, "{names:?}");
            let first_states = match is_fused {
                true => 0,
                false => layers * directions * 2 * BATCH * gates * HIDDEN * HIDDEN,
            };
            let case = format!("{gates} gates, {kind:?}, {layers} layers, {directions} directions");
            counted.is(forward, 2 * forward - first_states, &case);
        }
    }
}
