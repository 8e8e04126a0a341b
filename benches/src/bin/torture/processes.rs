//! Scenes of several processes.

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

/// Before the names of what several processes of one scene do.
pub const PART: &str = "part of ";

/// Where the processes of a scene write.
const FOLDER: &str = "MLPROF_TORTURE_FOLDER";

/// A child that takes longer hangs.
const LONGEST: Duration = Duration::from_secs(20);

/// In a process of a scene.
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

/// A training whose report, JSON and trace are written again.
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
        // Each says what its reports are without; what is not written is missed later.
        .stderr(Stdio::null())
        .spawn()
        .map_err(|error| error.to_string())
}

fn new_folder(name: &str) -> Result<std::path::PathBuf, String> {
    let folder = std::env::temp_dir().join(format!("mlprof-torture-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(folder)
}

/// How many files there are that are whole, and how many that are leftovers; a broken one is an error.
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
        // Each a little later than the last one, from before the first file on.
        std::thread::sleep(Duration::from_micros(u64::from(round % 100) * 700));
        child.kill().and_then(|()| child.wait()).map_err(|error| error.to_string())?;
    }
    let (whole, leftovers) = look_at_files(&folder)?;
    // Whoever comes next cleans up, but not what is younger than a minute.
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
    // As containers do: each process has the number 1 of a world of its own.
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

/// Children that activate, measure and report, forked while other threads do the same.
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
    // SAFETY: the child calls only what this scene is about, and leaves by `_exit`.
    let child = unsafe { libc::fork() };
    if child == 0 {
        measure();
        // SAFETY: it ends the child, without destructors.
        unsafe { libc::_exit(0) };
    }
    let start = Instant::now();
    let mut status = 0;
    while start.elapsed() < LONGEST {
        // SAFETY: `status` is an integer of this frame.
        match unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } {
            0 => std::thread::sleep(Duration::from_millis(1)),
            _ if status == 0 => return Ok(()),
            _ => return Err(format!("child {round} ended with status {status}")),
        }
    }
    // SAFETY: the child is ours and has not been waited for.
    unsafe { libc::kill(child, libc::SIGKILL) };
    Err(format!("child {round} hangs"))
}
