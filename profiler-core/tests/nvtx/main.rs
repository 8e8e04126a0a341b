//! The NVTX profiler and a tool that listens to it.
//!
//! The tool is a library in C, compiled here, which writes down what it is told; that it would hear
//! the same from NVIDIA's own header can be seen by compiling it with that (`-DNVIDIA_HEADERS`). A
//! process has one tool, so this has no test harness: it starts itself once per scene.

#[path = "../scene_runner/mod.rs"]
mod scene_runner;
#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("nvtx: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    let scene =
        |name: &str| scenes::ALL.iter().find(|scene| scene.name == name).expect("such a scene");
    if scene_runner::plays(|name| scene(name).play()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let tool = scene_runner::compile("nvtx/recorder.c", folder.path(), "librecorder.so");
    scene_runner::compile("nvtx/driver.c", folder.path(), "libcuda.so.1");
    let record = |name: &str| folder.path().join(format!("{name}.txt"));
    scene_runner::run(
        "nvtx",
        scenes::ALL.iter().map(|scene| scene.name),
        |name, command| {
            command.env("NVTX_RECORD", record(name)).env_remove("NVTX_INJECTION64_PATH");
            scene(name).prepare(command, &tool, folder.path());
        },
        |name| {
            let heard = std::fs::read_to_string(record(name)).unwrap_or_default();
            assert_eq!(scenes::without_addresses(&heard), scene(name).heard, "{name}:\n{heard}");
        },
    );
}
