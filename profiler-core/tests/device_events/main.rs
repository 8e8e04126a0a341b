//! Regions of a device, timed by CUDA's events, with a driver in C that stands in for CUDA's.
//!
//! The driver is compiled here. A process loads one driver, once: so this has no test harness, but
//! starts itself once per scene, and ends a scene that hangs.

#[cfg(target_os = "linux")]
mod fake;
#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("device_events: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    use std::path::Path;
    use std::process::Command;
    use std::time::{Duration, Instant};

    const SCENE: &str = "MLPROF_TEST_SCENE";
    const PATIENCE: Duration = Duration::from_secs(120);
    if let Ok(name) = std::env::var(SCENE) {
        let scene = scenes::ALL.iter().find(|scene| scene.name == name);
        return (scene.unwrap_or_else(|| panic!("no scene {name:?}")).play)();
    }
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/device_events/driver.c");
    let folder = tempfile::tempdir().expect("a folder");
    let compile = |library: &str, definition: &str| {
        let library = folder.path().join(library);
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-g", "-O2", "-pthread", definition, "-o"]).arg(&library);
        assert!(command.arg(&source).status().expect("a compiler for C").success());
        library
    };
    let driver = compile("libcuda.so.1", "-DNEW");
    let old = compile("old.so", "-DOLD");
    let ancient = compile("ancient.so", "-DANCIENT");
    let lean = compile("lean.so", "-DLEAN");
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for scene in scenes::ALL {
        if !filters.is_empty() && !filters.iter().any(|part| scene.name.contains(part.as_str())) {
            continue;
        }
        // Such as valgrind, with its options.
        let under = std::env::var("MLPROF_TEST_UNDER").unwrap_or_default();
        let mut words = under.split_whitespace().map(Into::into).collect::<Vec<_>>();
        words.push(std::env::current_exe().expect("this program").into_os_string());
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).env(SCENE, scene.name);
        match scene.driver {
            scenes::WhichDriver::Fake => command.env("MLPROF_CUDA_DRIVER", &driver),
            scenes::WhichDriver::Old => command.env("MLPROF_CUDA_DRIVER", &old),
            scenes::WhichDriver::Ancient => command.env("MLPROF_CUDA_DRIVER", &ancient),
            scenes::WhichDriver::Lean => command.env("MLPROF_CUDA_DRIVER", &lean),
            scenes::WhichDriver::Missing => {
                command.env("MLPROF_CUDA_DRIVER", "/nowhere/libcuda.so")
            }
            scenes::WhichDriver::NoDevice => {
                command.env("MLPROF_CUDA_DRIVER", &driver).env("FAKE_INIT_FAILS", "100")
            }
        };
        let mut child = command.spawn().expect("it runs");
        let started = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().expect("a child") {
                break status;
            }
            if started.elapsed() > PATIENCE {
                let _ = child.kill();
                panic!("{} hangs", scene.name);
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        assert!(status.success(), "{}: {status}", scene.name);
        println!("device_events: {}: ok", scene.name);
    }
}
