//! Tests that send signals to child processes. A child is this test binary, started again as one of
//! the `programs`.

#![cfg(unix)]

#[cfg(target_os = "linux")]
mod containers;
mod forks;
#[cfg(target_os = "linux")]
#[path = "../own_numbers/mod.rs"]
mod own_numbers;
mod process;
mod programs;
mod sessions;
#[cfg(target_os = "linux")]
mod shortages;
mod watches;

use std::time::Duration;

const PROGRAM: &str = "MLPROF_TEST_PROGRAM";
/// Environment variable with the folder for the program's files.
const FOLDER: &str = "MLPROF_TEST_FOLDER";
const SIGINT: i32 = 2;
const SIGTERM: i32 = 15;
const SIGHUP: i32 = 1;
/// All signals that request the end of a process.
const SIGNALS: [i32; 3] = [SIGINT, SIGTERM, SIGHUP];
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
#[ignore = "the child process of the other tests"]
fn child() {
    if let Ok(program) = std::env::var(PROGRAM) {
        programs::run(&program);
    }
}
