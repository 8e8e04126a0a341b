//! End-to-end tests of CUPTI, from its records to tables and traces.
//!
//! The tests need no GPU. CUPTI and the driver are C libraries, compiled here, that emit records in
//! the real layout. A process can only have one CUPTI, so each scene runs in a process of its own.

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
            // Some scenes also run with a real library, such as PyTorch's, if the environment names
            // one.
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
