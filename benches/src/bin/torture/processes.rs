//! Scenes with several processes.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use flate2::read::GzDecoder;
use mlprof_core::tensor::Schedule;
use mlprof_core::{
    Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage, TensorProfiler, activate, profile,
};

use crate::{Outcome, SCENE, Scale};

/// Prefix of the names of parts, which run in the processes of a scene.
pub const PART: &str = "part of ";

/// Environment variable with the output folder of a scene's processes.
const FOLDER: &str = "MLPROF_TORTURE_FOLDER";

/// A child process that runs longer is considered hanging.
const LONGEST: Duration = Duration::from_secs(20);

/// Runs a part in a process of a scene.
pub fn play_part(part: &str, scale: Scale) {
    let folder = std::env::var(FOLDER).unwrap_or_default();
    match part {
        "kills" => loop {
            write_files(&folder, "killed");
        },
        _ => (0..scale.of(20)).for_each(|round| {
            write_files(&folder, &format!("{part}-{round}"));
        }),
    }
}

/// Runs trainings that repeatedly write report, JSON and trace.
fn write_files(folder: &str, filename: &str) {
    let tensor = TensorProfiler::new().dirpath(folder).filename(filename);
    let tensor = tensor.schedule(Schedule::new().active(2));
    for profiler in [
        Arc::new(tensor) as Arc<dyn Profiler>,
        Arc::new(SimpleProfiler::new().dirpath(folder).filename(filename)),
    ] {
        profiler.setup(Stage::Fit, &RunContext::default());
        let active = activate(profiler.clone());
        for _ in 0..3 {
            for _ in 0..200 {
                let _scope = profile!("training_step");
            }
            profiler.step();
        }
        drop(active);
        profiler.describe();
    }
}

fn start_part(part: &str, folder: &Path, scale: Scale) -> Result<Child, String> {
    start_part_as(Command::new(program()?), part, folder, scale)
}

fn program() -> Result<std::path::PathBuf, String> {
    std::env::current_exe().map_err(|error| error.to_string())
}

fn start_part_as(
    mut command: Command,
    part: &str,
    folder: &Path,
    scale: Scale,
) -> Result<Child, String> {
    command
        .env(SCENE, format!("{PART}{part}"))
        .env(FOLDER, folder)
        .args(["--scale", &scale.0.to_string()])
        // Each process prints notes about its reports. Missing files are detected later.
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())
}

fn new_folder(name: &str) -> Result<std::path::PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("mlprof-torture-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// Returns the number of complete files and the number of leftover temporary files. A corrupt file
/// is an error.
fn look_at_files(folder: &Path) -> Result<(usize, usize), String> {
    let (mut whole, mut leftovers) = (0, 0);
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let read = std::fs::read(&path).map_err(|error| format!("{name}: {error}"))?;
        if name.starts_with('.') {
            leftovers += 1;
            continue;
        }
        let mut text = Vec::new();
        if name.ends_with(".gz") {
            let unpacked = GzDecoder::new(&*read).read_to_end(&mut text);
            unpacked.map_err(|error| format!("{name} is broken: {error}"))?;
        } else {
            text = read;
        }
        if name.contains(".json") {
            let value: Result<serde_json::Value, _> = serde_json::from_slice(&text);
            value.map_err(|error| format!("{name} is broken: {error}"))?;
        }
        whole += 1;
    }
    Ok((whole, leftovers))
}

pub fn kills(scale: Scale) -> Outcome {
    let folder = new_folder("kills")?;
    let kills = scale.of(300);
    for round in 0..kills {
        let mut child = start_part("kills", &folder, scale)?;
        // Each kill is a little later than the previous one, starting before the first file is
        // written.
        std::thread::sleep(Duration::from_micros(u64::from(round % 100) * 700));
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    }
    let (whole, leftovers) = look_at_files(&folder)?;
    // The next process removes leftover files, except those that are younger than one minute.
    write_files(&folder.to_string_lossy(), "last");
    let (_, left) = look_at_files(&folder)?;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    Ok(format!(
        "{kills} kills: {whole} whole files, none broken; {leftovers} leftovers, {left} of them after \
         one more run"
    ))
}

pub fn shared_folder(scale: Scale) -> Outcome {
    let folder = new_folder("folder")?;
    let parts = ["one", "two", "three", "four"];
    // As in containers, each process has process id 1 in its own namespace.
    let unshared = |program: &Path| {
        let mut command = Command::new("unshare");
        command.args(["--pid", "--fork", "--mount-proc"]).arg(program);
        command
    };
    let is_permitted = unshared(Path::new("true")).stderr(Stdio::null()).status();
    let is_permitted = is_permitted.is_ok_and(|status| status.success());
    let program = program()?;
    let command = || if is_permitted { unshared(&program) } else { Command::new(&program) };
    let children: Result<Vec<_>, _> =
        parts.iter().map(|part| start_part_as(command(), part, &folder, scale)).collect();
    for mut child in children? {
        let status = child.wait().map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("a process ended with {status}"));
        }
    }
    let (whole, leftovers) = look_at_files(&folder)?;
    let right = parts.len() * scale.of(20) as usize * 2;
    std::fs::remove_dir_all(&folder).map_err(|error| error.to_string())?;
    if whole < right || leftovers > 0 {
        return Err(format!("{whole} files of at least {right}, {leftovers} leftovers"));
    }
    let numbers = if is_permitted { "all of number 1" } else { "of different numbers" };
    Ok(format!("{whole} whole files of processes {numbers}"))
}

#[cfg(not(unix))]
pub fn forks(_: Scale) -> Outcome {
    Ok("there are no forks here".to_owned())
}

/// Forks children that activate, measure and report, while other threads do the same.
#[cfg(unix)]
pub fn forks(scale: Scale) -> Outcome {
    let is_over = AtomicBool::new(false);
    let forks = scale.of(300);
    let result = std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(|| {
                while !is_over.load(Ordering::Acquire) {
                    measure();
                }
            });
        }
        let result = (0..forks).try_for_each(fork_and_wait);
        is_over.store(true, Ordering::Release);
        result
    });
    result.map(|()| format!("{forks} children"))
}

fn measure() {
    let profiler = Arc::new(SimpleProfiler::new());
    profiler.setup(Stage::Fit, &RunContext::default());
    let active = activate(profiler.clone());
    drop(profile!("work"));
    drop(profiler.profile("more work"));
    drop(active);
    assert!(profiler.summary().contains("more work"));
    profiler.teardown(Some(Stage::Fit));
}

#[cfg(unix)]
fn fork_and_wait(round: u32) -> Result<(), String> {
    // SAFETY: `fork` has no preconditions for the parent. The child runs only the code under test,
    // which must support forks of multi-threaded processes, and exits with `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        measure();
        // SAFETY: `_exit` accepts any status, and ends the child without running destructors or
        // exit handlers.
        unsafe { libc::_exit(0) };
    }
    let start = Instant::now();
    let mut status = 0;
    while start.elapsed() < LONGEST {
        // SAFETY: `status` is a local variable that is valid for writes during the call.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 => std::thread::sleep(Duration::from_millis(1)),
            _ if status == 0 => return Ok(()),
            _ => return Err(format!("child {round} ended with status {status}")),
        }
    }
    // SAFETY: `kill` takes plain integers. The child has not been waited for, so its process id is
    // not reused.
    unsafe { libc::kill(child, libc::SIGKILL) };
    Err(format!("child {round} hangs"))
}
