//! Runs the example program with the Tensor profiler on the GPU and on the CPU.

use std::path::Path;
use std::process::Command;

use crate::recorded::alone;

/// Runs the program on `device`. Returns the table of an epoch and the number of written traces.
fn run(device: &str, directory: &Path) -> (String, usize) {
    let program = Command::new(env!("CARGO_BIN_EXE_burn-digits"))
        .args(["--device", device, "--epochs", "1", "--profiler", "tensor", "--filename", "run"])
        .arg("--dirpath")
        .arg(directory)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&program.stderr);
    assert!(program.status.success(), "{said}");
    let table = std::fs::read_to_string(directory.join("fit-run.txt")).unwrap();
    let names = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name());
    let is_trace = |name: &String| name.starts_with("fit-run") && name.ends_with(".json.gz");
    (table, names.filter_map(|name| name.into_string().ok()).filter(is_trace).count())
}

#[test]
fn digits_on_a_gpu_have_ops_kernels_and_a_trace() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (table, traces) = run("wgpu", directory.path());
    for part in ["burn::conv2d ", "burn::conv2d_weight_backward", "Device", "MFLOPs"] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
    assert_eq!(traces, 1);
}

#[test]
fn digits_on_the_processor_say_why_they_have_no_ops() {
    let _alone = alone();
    let directory = tempfile::tempdir().unwrap();
    let (table, traces) = run("flex", directory.path());
    assert!(table.contains("no ops of Device<Flex"), "{table}");
    assert!(table.contains("Optimizer.step") && !table.contains("burn::"), "{table}");
    assert_eq!(traces, 1);
}
