//! End-to-end tests of device counters, from a fake NVML to the trace and the table.
//!
//! The fake library is in C and compiled here. A process can only have one, so this test has no
//! harness. It starts itself once per scene and terminates scenes that hang.

#[path = "../../../profiler-core/tests/scene_runner/mod.rs"]
mod scene_runner;
#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("device counters: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    let scene =
        |name: &str| scenes::ALL.iter().find(|scene| scene.name == name).expect("such a scene");
    if scene_runner::plays(|name| (scene(name).play)()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let library =
        scene_runner::compile("device_counters/nvml.c", folder.path(), "libnvidia-ml.so.1");
    scene_runner::run(
        "device counters",
        scenes::ALL.iter().map(|scene| scene.name),
        |name, command| {
            for variable in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MLPROF_DEVICE_COUNTERS"]
            {
                command.env_remove(variable);
            }
            command.env("MLPROF_NVML_LIBRARY", &library);
            command.envs(scene(name).environment.iter().copied());
        },
        |_| {},
    );
}
