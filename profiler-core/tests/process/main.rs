//! What only a whole process shows: its start, its environment, its limits.
//!
//! Has no test harness, as its parts are processes of their own that start actions on their main
//! threads: without arguments it starts itself once per scene and looks at what they print.

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
