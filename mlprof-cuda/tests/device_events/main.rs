//! End-to-end tests of device regions with a fake CUDA driver in C.
//!
//! The driver is compiled here. A process loads one driver only, so this test has no harness. It
//! starts itself once per scene and terminates scenes that hang.

#[cfg(target_os = "linux")]
mod fake;
#[path = "../../../profiler-core/tests/scene_runner/mod.rs"]
mod scene_runner;
#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("device_events: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    use scenes::WhichDriver;

    let scene =
        |name: &str| scenes::ALL.iter().find(|scene| scene.name == name).expect("such a scene");
    if scene_runner::plays(|name| (scene(name).play)()) {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let compile = |library: &str, definition: &str| {
        scene_runner::compile_with(&[definition], "device_events/driver.c", folder.path(), library)
    };
    let driver = compile("libcuda.so.1", "-DNEW");
    let old = compile("old.so", "-DOLD");
    let ancient = compile("ancient.so", "-DANCIENT");
    let lean = compile("lean.so", "-DLEAN");
    scene_runner::run(
        "device_events",
        scenes::ALL.iter().map(|scene| scene.name),
        |name, command| {
            let which = &scene(name).driver;
            let path = match which {
                WhichDriver::Fake | WhichDriver::NoDevice => &driver,
                WhichDriver::Old => &old,
                WhichDriver::Ancient => &ancient,
                WhichDriver::Lean => &lean,
                WhichDriver::Missing => std::path::Path::new("/nowhere/libcuda.so"),
            };
            command.env("MLPROF_CUDA_DRIVER", path);
            if matches!(which, WhichDriver::NoDevice) {
                command.env("FAKE_INIT_FAILS", "100");
            }
        },
        |_| {},
    );
}
