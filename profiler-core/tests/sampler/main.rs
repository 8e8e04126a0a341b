//! Stack samples of whole processes.
//!
//! Has no test harness, as a process is sampled as a whole, and some scenes end it in ways that a
//! harness would not survive: without arguments it starts itself once per scene. Arguments choose
//! scenes by a part of their names, as a harness does.

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
    const SCENE: &str = "MLPROF_TEST_SCENE";
    if let Ok(name) = std::env::var(SCENE) {
        let scene = scenes::ALL.iter().find(|(known, _)| *known == name);
        scene.unwrap_or_else(|| panic!("no scene {name:?}")).1();
        return;
    }
    let filters: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let is_chosen =
        |name: &str| filters.is_empty() || filters.iter().any(|part| name.contains(part.as_str()));
    let program = std::env::current_exe().expect("the path of this program");
    let mut failed = Vec::new();
    for (name, _) in scenes::ALL.iter().filter(|(name, _)| is_chosen(name)) {
        let played = play(std::process::Command::new(&program).env(SCENE, name));
        let is_right = played.as_ref().is_ok_and(std::process::ExitStatus::success);
        println!("sampler: {name}: {}", if is_right { "ok" } else { "FAILED" });
        if !is_right {
            failed.push(format!("{name}: {played:?}"));
        }
    }
    assert!(failed.is_empty(), "{failed:#?}");
}

/// Runs a scene to its end, and ends it if it hangs.
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
fn play(scene: &mut std::process::Command) -> std::io::Result<std::process::ExitStatus> {
    use std::time::{Duration, Instant};

    const LONGEST: Duration = Duration::from_secs(300);
    let mut scene = scene.spawn()?;
    let start = Instant::now();
    while start.elapsed() < LONGEST {
        if let Some(status) = scene.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    scene.kill()?;
    scene.wait()?;
    Err(std::io::Error::new(std::io::ErrorKind::TimedOut, "it hung"))
}
