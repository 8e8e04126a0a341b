//! What CUPTI tells of, from its records to tables and traces.
//!
//! There is no GPU: CUPTI and the driver are libraries in C, compiled here, which give out records as
//! the real ones lay them out. A process has one CUPTI, so each scene has a process.

#[cfg(target_os = "linux")]
mod fake;
#[path = "../../../profiler-core/tests/scene_runner/mod.rs"]
mod scene_runner;
#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("cupti: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    let scene =
        |name: &str| scenes::ALL.iter().find(|scene| scene.name == name).expect("such a scene");
    if scene_runner::plays(|name| (scene(name).play)()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let cupti_path = scene_runner::compile("cupti/cupti.c", folder.path(), "libcupti.so.12");
    let driver = scene_runner::compile("cupti/driver.c", folder.path(), "libcuda.so.1");
    scene_runner::run(
        "cupti",
        scenes::ALL.iter().map(|scene| scene.name),
        |name, command| {
            // Torch's own, if the one who runs the tests has one.
            let real = std::env::var_os("MLPROF_TEST_CUPTI");
            let cupti = real.as_ref().filter(|_| scene(name).is_of_real_library);
            let cupti = cupti.map_or(cupti_path.as_os_str(), |path| path.as_os_str());
            command.env("MLPROF_CUPTI_LIBRARY", cupti).env("MLPROF_CUDA_DRIVER", &driver);
            command.env_remove("NVTX_INJECTION64_PATH").env("FAKE_CUPTI", scene(name).mode);
            (scene(name).prepare)(command, folder.path());
        },
        |_| {},
    );
}
