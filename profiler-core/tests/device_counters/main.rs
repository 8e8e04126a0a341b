//! Counters of NVIDIA's devices, from a library that stands for NVML to the trace and the table.
//!
//! The library is in C, compiled here. A process has one, so this has no test harness: it starts
//! itself once per scene, and ends scenes that do not end.

#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("device counters: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    use std::path::Path;
    use std::process::Command;

    const SCENE: &str = "MLPROF_TEST_SCENE";
    if let Ok(name) = std::env::var(SCENE) {
        let scene = scenes::ALL.iter().find(|scene| scene.name == name);
        (scene.unwrap_or_else(|| panic!("no scene {name:?}")).play)();
        return;
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device_counters/nvml.c");
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libnvidia-ml.so.1");
    let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
    let mut command = Command::new(compiler);
    command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(source);
    assert!(command.status().expect("a compiler for C").success());
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for scene in scenes::ALL {
        if !filters.is_empty() && !filters.iter().any(|part| scene.name.contains(part.as_str())) {
            continue;
        }
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        for variable in ["CUDA_VISIBLE_DEVICES", "CUDA_DEVICE_ORDER", "MLPROF_DEVICE_COUNTERS"] {
            command.env_remove(variable);
        }
        command.env(SCENE, scene.name).env("MLPROF_NVML_LIBRARY", &library);
        command.envs(scene.environment.iter().copied());
        end_in_time(scene.name, command.spawn().expect("it runs"));
        println!("device counters: {}: ok", scene.name);
    }
}

/// Waits until a scene has ended well; ends one that takes too long.
#[cfg(target_os = "linux")]
fn end_in_time(name: &str, mut scene: std::process::Child) {
    use std::time::{Duration, Instant};

    let start = Instant::now();
    loop {
        if let Some(status) = scene.try_wait().expect("it is ours") {
            assert!(status.success(), "{name}: {status}");
            return;
        }
        if start.elapsed() > Duration::from_secs(60) {
            scene.kill().expect("it is ours");
            panic!("{name}: does not end");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
