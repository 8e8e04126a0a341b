//! Tests of single ops, blocks and kernels.

use std::sync::Barrier;

use burn::tensor::activation::relu;
use burn::tensor::module::conv2d;
use burn::tensor::ops::ConvOptions;
use burn::tensor::{Device, Distribution, Tensor};
use mlprof_burn::ProfileBackwardExt;
#[cfg(feature = "autotune")]
use mlprof_burn::ops::{AUTOTUNE, TUNING_LAUNCH};
use mlprof_core::hook::{DType, DeviceActivity, Direction, TensorShape, TimingMethod};
use mlprof_core::tensor::DeviceTiming;
use mlprof_core::{ActionKind, profile};

use crate::recorded::{alone, assert_all_kernels_have_owners, device, record, record_with};

fn random<const D: usize>(shape: [usize; D], device: &Device) -> Tensor<D> {
    Tensor::random(shape, Distribution::Uniform(-1.0, 1.0), device)
}

fn shape(dimensions: &[i64]) -> TensorShape {
    TensorShape::Tensor(DType::Float32, dimensions.to_vec())
}

fn integers(values: &[i64]) -> TensorShape {
    TensorShape::Integers(values.to_vec())
}

#[test]
fn a_matmul_has_its_shapes_its_place_and_its_kernel() {
    let _alone = alone();
    let device = device();
    let (a, b) = (random([64, 32], &device), random([32, 16], &device));
    device.sync().unwrap();
    let recorded = record(DeviceTiming::On, || {
        let _scope = profile!("here");
        let _product = a.matmul(b).into_data();
    });
    let matmul = recorded.op("burn::matmul");
    assert_eq!(matmul.inputs, Some(vec![shape(&[64, 32]), shape(&[32, 16])]));
    assert_eq!(matmul.actions(), ["here"]);
    let kernels = recorded.kernels_of(matmul);
    assert!(!kernels.is_empty());
    for kernel in kernels {
        let how = (kernel.activity, kernel.method);
        assert_eq!(how, (DeviceActivity::Kernel, TimingMethod::Device));
        assert_eq!(kernel.place, matmul.place);
        let launch = recorded.launches().find(|it| it.sequence == kernel.correlation).unwrap();
        // The times are in nanoseconds, and the two clocks agree within a few microseconds.
        let is_after = kernel.start + 20_000 >= launch.start;
        assert!(is_after && kernel.end > kernel.start, "{kernel:?} {launch:?}");
    }
    assert_all_kernels_have_owners(&recorded);
}

#[cfg(feature = "autotune")]
#[test]
fn trials_of_kernels_are_apart_from_the_ops_they_are_for() {
    let _alone = alone();
    let device = device();
    // No other test uses this shape, so its kernels are autotuned here.
    let x = random([123, 4567], &device);
    device.sync().unwrap();
    let recorded = record(DeviceTiming::On, || {
        let _scope = profile!("here");
        x.sum_dim(1).into_data();
    });
    assert_all_kernels_have_owners(&recorded);
    let sum = recorded.op("burn::sum_dim");
    let is_trial = |kernel: &&_| is_tuning(kernel) && kernel.name != AUTOTUNE;
    let trials: Vec<_> = recorded.kernels.iter().filter(is_trial).collect();
    let all: Vec<_> = recorded.kernels.iter().filter(|kernel| kernel.name == AUTOTUNE).collect();
    assert!(!trials.is_empty() && !all.is_empty(), "{:?}", recorded.kernels);
    assert!(trials.iter().chain(&all).all(|trial| trial.place == sum.place));
    assert!(all.iter().all(|all| all.method == TimingMethod::Host && all.end > all.start));
    let kernels = recorded.kernels_of(sum);
    assert!(!kernels.is_empty() && !kernels.iter().any(|kernel| is_tuning(kernel)), "{kernels:?}");
    let launches = recorded.launches().filter(|launch| launch.name == TUNING_LAUNCH).count();
    assert_eq!(launches, trials.len());
}

#[cfg(feature = "autotune")]
fn is_tuning(kernel: &crate::recorded::Kernel) -> bool {
    kernel.activity == DeviceActivity::Tuning
}

#[test]
fn a_convolution_has_its_integers_forward_and_backward() {
    let _alone = alone();
    let device = device().autodiff();
    let input = random([2, 4, 8, 8], &device);
    let weight = random([6, 2, 3, 3], &device).require_grad();
    let bias = random([6], &device).require_grad();
    let work = || {
        let options = ConvOptions::new([2, 1], [1, 0], [1, 2], 2);
        let output = conv2d(input.clone(), weight.clone(), Some(bias.clone()), options);
        let gradients = output.sum().profile_backward();
        weight.grad(&gradients).unwrap().into_data();
    };
    let recorded = record(DeviceTiming::NamesOnly, work);
    let settings = [integers(&[2, 1]), integers(&[1, 0]), integers(&[1, 2]), integers(&[2])];
    let forward = recorded.op("burn::conv2d");
    let inputs = [shape(&[2, 4, 8, 8]), shape(&[6, 2, 3, 3]), shape(&[6])];
    assert_eq!(forward.inputs, Some([&inputs[..], &settings].concat()));
    assert_eq!(forward.direction, Direction::Forward);

    let backward = recorded.op("burn::conv2d_weight_backward");
    let inputs = [shape(&[2, 4, 8, 8]), shape(&[6, 2, 3, 3]), shape(&[2, 6, 4, 4])];
    assert_eq!(backward.inputs, Some([&inputs[..], &settings].concat()));
    assert_eq!(backward.direction, Direction::Backward);
    assert_eq!(backward.actions(), ["backward"]);
    assert_eq!(recorded.op("burn::sum").direction, Direction::Forward);
    assert_eq!(recorded.op("burn::ones").direction, Direction::Backward, "the loss's gradient");
    assert_all_kernels_have_owners(&recorded);
}

#[test]
fn a_chain_is_one_block_with_its_ops_inside() {
    let _alone = alone();
    let device = device();
    let (x, y) = (random([256, 64], &device), random([256, 64], &device));
    let work = || {
        let sum = x.clone() + y.clone();
        (relu(sum * 2.0).exp()).into_data()
    };
    let expected = work();
    let mut result = None;
    let recorded = record(DeviceTiming::On, || result = Some(work()));
    assert_eq!(result.unwrap(), expected);
    let [fused] = recorded.fused().collect::<Vec<_>>()[..] else {
        panic!("one block, not {:?}", recorded.fused().collect::<Vec<_>>())
    };
    assert!(fused.name.starts_with("burn::fused[add, mul_scalar, "), "{}", fused.name);
    assert_eq!(fused.inputs, Some(vec![shape(&[256, 64]); 2]), "what comes from outside");
    let inside = |op: &&_| recorded.is_inside(op, fused);
    assert_eq!(recorded.ops().filter(inside).count(), recorded.ops().count());
    for name in ["burn::add", "burn::mul_scalar", "burn::exp"] {
        assert_eq!(recorded.op_counts().get(name), Some(&1), "{name}");
        assert!(recorded.kernels_of(recorded.op(name)).is_empty(), "the block has the kernel");
    }
    let [kernel] = recorded.kernels_of(fused)[..] else { panic!("one kernel for all") };
    assert_eq!((kernel.name, kernel.method), ("ElemwiseFuse", TimingMethod::Device));
    assert!(kernel.end > kernel.start);
}

#[test]
fn without_timing_kernels_have_names_alone() {
    let _alone = alone();
    let device = device();
    let x = random([64, 64], &device);
    let work = || (x.clone().exp() + 1.0).into_data();
    work();
    let recorded = record(DeviceTiming::NamesOnly, || drop(work()));
    assert!(!recorded.kernels.is_empty());
    for kernel in &recorded.kernels {
        let (method, length) = (kernel.method, kernel.end - kernel.start);
        assert_eq!((method, length), (TimingMethod::None, 0), "{kernel:?}");
    }
    assert_all_kernels_have_owners(&recorded);
}

#[test]
fn ops_of_several_threads_belong_to_the_actions_of_the_threads_that_called_them() {
    const ROUNDS: usize = 20;
    let _alone = alone();
    let device = device();
    let start = Barrier::new(2);
    let recorded = record(DeviceTiming::NamesOnly, || {
        std::thread::scope(|threads| {
            threads.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    let _scope = profile!("sines");
                    random([8], &device).sin().into_data();
                }
            });
            threads.spawn(|| {
                start.wait();
                for _ in 0..ROUNDS {
                    let _scope = profile!("cosines");
                    random([8], &device).cos().into_data();
                }
            });
        });
    });
    for (op, action) in [("burn::sin", "sines"), ("burn::cos", "cosines")] {
        let ops: Vec<_> = recorded.ops().filter(|it| it.name == op).collect();
        assert_eq!(ops.len(), ROUNDS);
        for op in ops {
            assert_eq!(op.actions(), [action]);
        }
    }
}

#[test]
fn an_op_belongs_to_the_action_that_called_it_even_if_it_runs_much_later() {
    let _alone = alone();
    let device = device();
    let x = random([16], &device);
    let recorded = record(DeviceTiming::NamesOnly, || {
        let sum = {
            let _scope = profile!("early");
            x.clone() + 1.0
        };
        let product = {
            let _scope = profile!("late");
            sum * 3.0
        };
        // No op has run yet.
        let _scope = profile!("reading");
        product.into_data();
    });
    assert_eq!(recorded.op("burn::add_scalar").actions(), ["early"]);
    assert_eq!(recorded.op("burn::mul_scalar").actions(), ["late"]);
}

#[test]
fn memory_that_an_action_keeps_is_seen() {
    const BYTES: u64 = 4 * 512 * 1024;
    let _alone = alone();
    let device = device();
    let mut kept = None;
    let recorded = record_with(
        |profiler| profiler.profile_memory(true).device_timing(DeviceTiming::NamesOnly),
        || {
            random([4], &device).exp().into_data(); // registers the thread as one that calls ops
            let _scope = profile!("outer");
            {
                let _scope = profile!("allocating");
                kept = Some(Tensor::<2>::ones([512, 1024], &device) * 2.0);
            }
            let _scope = profile!("after");
        },
    );
    let grown = recorded.memory.iter().any(|(change, total)| {
        u64::try_from(*change).is_ok_and(|change| change >= BYTES) && *total >= BYTES
    });
    assert!(grown, "{:?}", recorded.memory);
    drop(kept);
}

#[test]
fn nothing_is_recorded_when_nobody_asks() {
    let _alone = alone();
    let device = device();
    let before = record(DeviceTiming::On, || {});
    random([16], &device).exp().into_data();
    let after = record(DeviceTiming::On, || {});
    for recorded in [before, after] {
        let strays = recorded.scopes.iter().filter(|scope| scope.kind != ActionKind::Step).count();
        assert_eq!((strays, recorded.kernels.len()), (0, 0), "{recorded:?}");
    }
}
