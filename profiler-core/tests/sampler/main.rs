//! Tests of stack samples of whole processes.
//!
//! This program has no test harness. A process is sampled as a whole, and a harness would not
//! survive the way in which some scenes end it. Without arguments it starts itself once per scene.
//! Arguments choose scenes by a part of their names, as in a harness.

#[path = "../scene_runner/mod.rs"]
mod scene_runner;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod scenes;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod work;

#[cfg(not(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64"))))]
fn main() {
    println!("sampler: Linux on x86-64 and aarch64 only");
}

#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn main() {
    let play = |name: &str| {
        let scene = scenes::ALL.iter().find(|(known, _)| *known == name);
        scene.unwrap_or_else(|| panic!("no scene {name:?}")).1();
    };
    if !scene_runner::plays(play) {
        let names = scenes::ALL.iter().map(|(name, _)| *name);
        scene_runner::run("sampler", names, |_, _| {}, |_| {});
    }
}
