//! Tests of children that are forked while threads of the program are profiled.

use std::fs::{read_dir, read_to_string};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use mlprof_core::hook::{OpScope, OpStart};
use mlprof_core::{
    Action, AdvancedProfiler, Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage,
    TensorProfiler, activate, profile, profile_dynamic,
};

const CHILDREN: usize = 150;
/// Maximum wait for a child, long enough for a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

/// Forks children that do the same work as the threads that run at the time of the fork.
pub fn while_others_work() {
    let directory = tempfile::tempdir().expect("a folder");
    let is_over = AtomicBool::new(false);
    let mut lost = Vec::new();
    std::thread::scope(|threads| {
        for number in 0..3 {
            let (directory, is_over) = (directory.path(), &is_over);
            threads.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    train(directory, &format!("thread-{number}"));
                }
            });
        }
        for child in 0..CHILDREN {
            // SAFETY: the child uses only state that this crate keeps usable after a fork, and then
            // exits.
            let process = unsafe { libc::fork() };
            assert!(process >= 0, "fork");
            if process == 0 {
                train(directory.path(), &format!("child-{child}"));
                // SAFETY: `_exit` ends the child without the parent's exit handlers.
                unsafe { libc::_exit(0) };
            }
            lost.extend(wait(process).err().map(|end| format!("child {child} {end}")));
            if lost.len() >= 3 {
                break; // three failures are enough
            }
        }
        is_over.store(true, Ordering::Relaxed);
    });
    println!("{} children lost", lost.len());
    lost.iter().for_each(|end| println!("{end}"));
}

/// Activates profilers, records, steps and reports, like a training.
fn train(directory: &Path, name: &str) {
    let simple = SimpleProfiler::new().dirpath(directory).filename(name);
    let advanced = AdvancedProfiler::new().dirpath(directory).filename(name);
    let tensor = TensorProfiler::new().profile_memory(true).dirpath(directory).filename(name);
    let profilers: [Arc<dyn Profiler>; 3] =
        [Arc::new(simple), Arc::new(advanced), Arc::new(tensor)];
    for profiler in profilers {
        profiler.setup(Stage::Fit, &RunContext::default());
        let active = activate(profiler.clone());
        for step in 0..6 {
            let _batch = profile!("run_training_batch");
            let op = Action::op(if step % 2 == 0 { "an::op" } else { "another::op" });
            let op = OpScope::open(&OpStart::new(op));
            drop(profile_dynamic!(format!("{name} {step}")));
            op.into_iter().for_each(OpScope::close);
            profiler.step();
        }
        drop(active);
        assert!(!profiler.summary().is_empty());
        assert!(profiler.report().is_some());
        profiler.describe();
    }
}

/// Waits until the child has ended. Returns an error if it failed or hung.
fn wait(child: libc::pid_t) -> Result<(), String> {
    let (mut status, started) = (0, Instant::now());
    // SAFETY: `status` is a local variable, and only this function waits for the child.
    while unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == 0 {
        if started.elapsed() > PATIENCE {
            let place = place(child);
            // SAFETY: the child has not been reaped, so its id is still its own.
            unsafe { libc::kill(child, libc::SIGKILL) };
            // SAFETY: `status` is a local variable, and only this function waits for the child.
            unsafe { libc::waitpid(child, &raw mut status, 0) };
            return Err(format!("hung: {place}"));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    match status {
        0 => Ok(()),
        status if libc::WIFSIGNALED(status) => {
            Err(format!("ended by signal {}", libc::WTERMSIG(status)))
        }
        status => Err(format!("ended with {}", libc::WEXITSTATUS(status))),
    }
}

/// Returns the state of each thread of a process, as the system reports it: name, kernel wait
/// function and system call.
fn place(process: libc::pid_t) -> String {
    let tasks = read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
    let of = |task: std::fs::DirEntry| {
        let read = |file: &str| read_to_string(task.path().join(file)).unwrap_or_default();
        format!("{} {} {}", read("comm").trim(), read("wchan").trim(), read("syscall").trim())
    };
    let maps = read_to_string(format!("/proc/{process}/maps")).unwrap_or_default();
    let code: Vec<&str> = maps.lines().filter(|line| line.contains(" r-xp ")).collect();
    format!("{:?}, {code:#?}", tasks.map(of).collect::<Vec<_>>())
}
