//! Tests of the NVTX profiler with a tool that receives its calls.
//!
//! The tool is a C library, compiled here, which records its calls. Compiling it with
//! `-DNVIDIA_HEADERS` shows that NVIDIA's own header leads to the same calls. A process can have
//! only one tool, so this program has no test harness and starts itself once per scene.

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
