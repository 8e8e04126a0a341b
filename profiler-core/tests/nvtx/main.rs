//! The NVTX profiler and a tool that listens to it.
//!
//! The tool is a library in C, compiled here, which writes down what it is told; that it would hear
//! the same from NVIDIA's own header can be seen by compiling it with that (`-DNVIDIA_HEADERS`). A
//! process has one tool, so this has no test harness: it starts itself once per scene.

#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("nvtx: tested on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    use std::path::Path;
    use std::process::Command;

    const SCENE: &str = "MLPROF_TEST_SCENE";
    if let Ok(name) = std::env::var(SCENE) {
        let scene = scenes::ALL.iter().find(|scene| scene.name == name);
        scene.unwrap_or_else(|| panic!("no scene {name:?}")).play();
        return;
    }
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/nvtx");
    let folder = tempfile::tempdir().expect("a folder");
    let compile = |source: &str, library: &str| {
        let library = folder.path().join(library);
        let compiler = std::env::var_os("CC").unwrap_or_else(|| "cc".into());
        let mut command = Command::new(compiler);
        command.args(["-shared", "-fPIC", "-o"]).arg(&library).arg(sources.join(source));
        assert!(command.status().expect("a compiler for C").success(), "{source}");
        library
    };
    let tool = compile("recorder.c", "librecorder.so");
    compile("driver.c", "libcuda.so.1");
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    for scene in scenes::ALL {
        if !filters.is_empty() && !filters.iter().any(|part| scene.name.contains(part.as_str())) {
            continue;
        }
        let record = folder.path().join(format!("{}.txt", scene.name));
        let mut command = Command::new(std::env::current_exe().expect("this program"));
        command.env(SCENE, scene.name).env("NVTX_RECORD", &record);
        command.env_remove("NVTX_INJECTION64_PATH");
        scene.prepare(&mut command, &tool, folder.path());
        assert!(command.status().expect("it runs").success(), "{}", scene.name);
        let heard = std::fs::read_to_string(&record).unwrap_or_default();
        assert_eq!(scenes::without_addresses(&heard), scene.heard, "{}:\n{heard}", scene.name);
        println!("nvtx: {}: ok", scene.name);
    }
}
