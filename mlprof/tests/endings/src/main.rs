//! Calls a function 100 times, and ends in the way given by its argument.

use std::hint::black_box;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn _exit(code: i32) -> !;
    fn fork() -> i32;
    fn wait(status: *mut i32) -> i32;
}

fn leaf(n: u64) -> u64 {
    n ^ 3
}

fn work() -> u64 {
    (0..100).map(|n| leaf(black_box(n))).sum()
}

fn deeper(n: u64) -> u64 {
    let here = [n; 512];
    if n == u64::MAX { 0 } else { deeper(n + 1) + black_box(here)[3] }
}

fn stay_in_here() {
    std::process::exit(6);
}

fn wait_for_it(lock: &Mutex<()>) {
    drop(lock.lock());
}

fn keep_busy(milliseconds: u64) {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(milliseconds) {
        black_box((0..1000_u64).map(black_box).sum::<u64>());
    }
}

fn never_called() {}

/// Waits until a result file exists, for at most one minute.
fn wait_for_results() {
    let has_results = || {
        let files = std::fs::read_dir("mlprof-results").into_iter().flatten().flatten();
        files.map(|file| file.path()).any(|path| path.extension().is_some_and(|it| it == "json"))
    };
    for _ in 0..600 {
        if has_results() {
            return;
        }
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn main() {
    let way = std::env::args().nth(1).unwrap_or_default();
    if way == "at once" {
        return;
    }
    println!("begin");
    work();
    match way.as_str() {
        "abort" => std::process::abort(),
        "panic" => panic!("on purpose"),
        // SAFETY: none. The write is invalid on purpose, because the test needs a fault.
        "fault" => unsafe { std::ptr::write_volatile(8 as *mut u8, 1) },
        "overflow" => println!("{}", deeper(0)),
        "thread" => {
            let _ = std::thread::spawn(|| std::process::abort()).join();
        }
        "exit" => stay_in_here(),
        // SAFETY: `_exit` ends the process and has no preconditions.
        "_exit" => unsafe { _exit(5) },
        "late _exit" => {
            wait_for_results();
            // SAFETY: `_exit` ends the process and has no preconditions.
            unsafe { _exit(5) }
        }
        "kill" => {
            let own = std::process::id().to_string();
            Command::new("kill").args(["-KILL", &own]).status().expect("it runs");
            std::thread::sleep(Duration::from_secs(60));
        }
        "exec" => panic!("{}", Command::new("true").exec()),
        // SAFETY: the child calls a function that takes no lock, and then ends by `_exit`. The
        // pointer for `wait` refers to a live temporary.
        "fork" => unsafe {
            if fork() == 0 {
                black_box(work());
                _exit(0);
            }
            wait(&mut 0);
        },
        // SAFETY: the child calls a function that takes no lock, and then ends as a program does.
        // The pointer for `wait` refers to a live temporary.
        "fork and exit" => unsafe {
            if fork() == 0 {
                black_box(work());
                std::process::exit(0);
            }
            wait(&mut 0);
        },
        "threads" => {
            let lock = Mutex::new(());
            let held = lock.lock().expect("nobody panics");
            std::thread::scope(|scope| {
                for name in ["waiter-0", "waiter-1"] {
                    let named = std::thread::Builder::new().name(name.to_owned());
                    named.spawn_scoped(scope, || wait_for_it(&lock)).expect("it starts");
                }
                let named = std::thread::Builder::new().name("busy".to_owned());
                named.spawn_scoped(scope, || keep_busy(600)).expect("it starts");
                std::thread::sleep(Duration::from_millis(700));
                drop(held);
            });
        }
        "wait" => {
            println!("waiting");
            std::thread::sleep(Duration::from_secs(60));
        }
        "on" => {
            println!("waiting");
            let start = Instant::now();
            while start.elapsed() < Duration::from_secs(60) {
                black_box(work());
                std::thread::sleep(Duration::from_millis(1));
            }
        }
        "never" => never_called(),
        _ => {}
    }
    println!("end");
}
