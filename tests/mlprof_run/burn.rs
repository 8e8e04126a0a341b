//! Tests `mlprof run` with burn's flex device, which has no hook for its ops.

use std::collections::BTreeMap;
use std::path::Path;

use mlprof_core::report::TensorReport;
use mlprof_core::{ActionKind, Report};
use tempfile::tempdir;
use tests::program::{self, Run};

use crate::{calls_per_step, numerics, report, rows, run};

/// Schedule of the compared steps. Kernels are autotuned in the earlier steps.
const SCHEDULE: &str = "wait=2,warmup=1,active=3,repeat=1";

fn flex(results: &Path) -> TensorReport {
    let options = ["--ops", "burn-flex,burn-autodiff", "--group-by-shapes", "--schedule", SCHEDULE];
    let finished =
        run(&options, &["--profile", "hooked", "-p", "burn-digits"], &["--epochs", "1"], results);
    // The program was started without a profiler. It trains as usual, and its loop reports its
    // steps.
    assert!(finished.stderr.contains("FIT Profiler Report"), "{finished:?}");
    report(results, "fit-burn-digits-")
}

#[test]
fn a_step_of_the_digits_has_its_ops_with_shapes_forward_and_backward() {
    let results = tempdir().expect("a folder");
    let fit = flex(results.path());
    assert_eq!(fit.recorded_steps, 3);
    assert!(!fit.header.notes.iter().any(|note| note.contains("no ops of")), "{fit:?}");
    // There are two layers of matrix products: one forward and two backward each. On this device,
    // gradients of a convolution are also convolutions: one per weight, and one for the input of
    // the second layer.
    let expected = [
        ("matmul", 6.0),
        ("conv2d", 4.0),
        ("conv_transpose2d", 1.0),
        ("conv2d_weight_backward", 2.0),
        ("conv2d_x_backward", 1.0),
        ("autodiff::matmul_backward", 2.0),
        ("backward", 1.0),
    ];
    for (name, calls) in expected {
        assert_eq!(calls_per_step(&fit, &format!("burn::{name}")), calls, "{name}: {fit:#?}");
    }
    // A gradient node and the op that it calls have different names, so each is counted once.
    for name in ["relu_backward", "adaptive_avg_pool2d_backward", "max_pool2d_backward"] {
        let calls = calls_per_step(&fit, &format!("burn::{name}"));
        let nodes = calls_per_step(&fit, &format!("burn::autodiff::{name}"));
        assert!(calls == 0.0 || calls == nodes, "{name}: {calls} by {nodes} nodes");
    }
    let forward = calls_per_step(&fit, "burn::relu");
    assert_eq!((calls_per_step(&fit, "burn::relu_backward"), forward > 0.0), (forward, true));
    // The forward product of a layer is counted as `linear`, and its two gradients as matrix
    // products.
    let layers: u64 = [[512, 64], [64, 10]].iter().map(|[from, to]| 2 * 32 * from * to).sum();
    let flops = |name: &str| rows(&fit, name).iter().map(|row| row.flops).sum::<u64>();
    assert_eq!(flops("burn::linear"), layers * fit.recorded_steps, "{fit:#?}");
    assert_eq!(flops("burn::matmul"), 2 * layers * fit.recorded_steps, "{fit:#?}");
    assert!(rows(&fit, "burn::matmul").iter().all(|row| row.input_shapes.is_some()), "{fit:#?}");
}

/// Returns the ops per step by name, without the prefix of each name.
fn ops(report: &TensorReport) -> BTreeMap<String, f64> {
    let rows = report.key_averages.rows.iter();
    let ops = rows.filter(|row| row.kind == ActionKind::Op && !row.is_on_device);
    let names = ops.filter_map(|row| row.name.strip_prefix("burn::"));
    // Fused blocks are listed in addition to their ops.
    let names = names.filter(|name| !name.starts_with("fused["));
    names.map(|name| (name.to_owned(), calls_per_step(report, &format!("burn::{name}")))).collect()
}

/// Runs the same program on a CubeCL device, whose framework reports each op.
fn cubecl(folder: &Path) -> TensorReport {
    let options = ["--device", "wgpu", "--epochs", "1", "--json", "report.json"];
    let profiler = ["--profiler", "tensor", "--names-only", "--schedule", SCHEDULE];
    Run::of(&program::build("burn-digits", "burn-digits"), folder)
        .args(options)
        .args(profiler)
        .succeed();
    let json = std::fs::read_to_string(folder.join("report.json")).expect("reports");
    let reports: Vec<Report> = serde_json::from_str(&json).expect("reports");
    let fit = reports.into_iter().find_map(|report| match report {
        Report::Tensor(report) if report.header.stage == Some(mlprof_core::Stage::Fit) => {
            Some(report)
        }
        _ => None,
    });
    fit.expect("the report of the training")
}

/// Compares two independent ways to record the ops of one model: hooks in the functions of one
/// backend, and an observer of the other backend.
#[test]
fn ops_are_as_many_as_a_device_that_tells_of_them_is_given() {
    let results = tempdir().expect("a folder");
    let (flex, cubecl) = (ops(&flex(results.path())), ops(&cubecl(results.path())));
    let here = |name: &str| flex.get(name).copied().unwrap_or(0.0);
    let there = |name: &str| cubecl.get(name).copied().unwrap_or(0.0);

    // On a CubeCL device, the gradients of a convolution's weights and of its input are one op
    // each. Flex computes them with a convolution and a transposed convolution.
    assert_eq!(here("conv2d"), there("conv2d") + there("conv2d_weight_backward"));
    assert_eq!(here("conv_transpose2d"), there("conv2d_x_backward"));
    // In CubeCL, `relu` and its gradient are a comparison and a mask each, and `neg` is a
    // multiplication.
    assert_eq!(there("lower_equal_elem"), here("relu") + here("relu_backward"));
    assert_eq!(there("mask_fill"), there("lower_equal_elem"));
    assert_eq!(there("mul_scalar"), here("mul_scalar") + here("neg"));
    // Flex reshapes tensors where CubeCL's kernels use strides, and it sums in its gradients of
    // convolutions.
    for name in ["reshape", "swap_dims", "sum_dim"] {
        assert!(here(name) >= there(name), "{name}: {flex:#?} {cubecl:#?}");
    }
    let explained = [
        "conv2d",
        "lower_equal_elem",
        "mask_fill",
        "mul_scalar",
        "reshape",
        "swap_dims",
        "sum_dim",
    ];
    // Another thread computes these metrics in parallel, so that a step may contain none of them or
    // two.
    let of_metrics = ["argmax", "equal", "int", "mean", "sum"];
    let mut same = 0;
    for (name, calls) in &cubecl {
        if !explained.iter().chain(&of_metrics).any(|known| known == name) {
            assert_eq!(here(name), *calls, "{name}: {flex:#?} {cubecl:#?}");
            same += 1;
        }
    }
    assert!(same > 20, "{flex:#?} {cubecl:#?}");
}

/// Checks that op outputs are recorded, both forward and inside the nodes of the backward pass.
#[test]
fn the_numbers_that_ops_return_are_looked_at() {
    let results = tempdir().expect("a folder");
    let options = ["--ops", "burn-flex,burn-autodiff", "--numerics"];
    let cargo = ["--profile", "hooked", "-p", "burn-digits"];
    let finished = run(&options, &cargo, &["--epochs", "1"], results.path());
    let report = numerics(results.path(), "fit-burn-digits-");
    assert_eq!(report.first_not_finite, None, "{}", finished.stderr);
    assert!(report.recorded_steps > 0, "{report:?}");
    let has = |role: &str, name: &str| {
        let ops = report.tensors.iter().filter(|row| row.role.name() == role);
        let names: Vec<&str> = ops.map(|row| &*row.name).collect();
        // The op may be inside a layer or outside all layers.
        names.iter().any(|one| one.rsplit(" > ").next() == Some(name))
    };
    for name in ["burn::conv2d", "burn::matmul", "burn::relu"] {
        assert!(has("op_output", name), "{name}: {:#?}", report.tensors);
    }
    assert!(has("backward_op_output", "burn::matmul"), "{:#?}", report.tensors);
}
