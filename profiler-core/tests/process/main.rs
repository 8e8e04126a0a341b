//! Tests that need a whole process: start-up, environment and limits.
//!
//! This program has no test harness, because its scenes start actions on the main threads of their
//! own processes. Without arguments it starts itself once per scene and checks the output.

#[cfg(target_os = "linux")]
mod checks;
#[cfg(target_os = "linux")]
mod containers;
#[cfg(target_os = "linux")]
mod environment;
#[cfg(target_os = "linux")]
mod forks;
#[cfg(target_os = "linux")]
#[path = "../own_numbers/mod.rs"]
mod own_numbers;
#[cfg(target_os = "linux")]
mod run_forks;
#[cfg(target_os = "linux")]
mod scenes;

#[cfg(not(target_os = "linux"))]
fn main() {
    println!("process: start-up and the counters of threads are known on Linux only");
}

#[cfg(target_os = "linux")]
fn main() {
    match std::env::var("MLPROF_TEST_SCENE") {
        Ok(scene) => scenes::play(&scene),
        Err(_) => checks::all(),
    }
}
