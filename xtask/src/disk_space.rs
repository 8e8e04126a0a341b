//! Room for what is built. Cargo keeps what it built of every earlier state of a package: of a workspace whose
//! tests are programs with a framework inside, that fills a disk within days, and then builds fail in the
//! middle.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::metadata;
use crate::steps::{cargo, target_directory};

/// Gigabytes below which earlier builds are taken away: more than a run adds to what is there.
const WANTED: f64 = 20.0;

/// The profiles that the workspace's packages are built in.
const PROFILES: [&str; 4] = ["dev", "release", "tested", "quick"];

/// Takes earlier builds of the workspace's own packages away if the disk is nearly full, and says so. Those
/// of what they stand on stay, since they take far longer to build.
pub fn make_room() -> Result<(), String> {
    let folder = target_directory();
    let Some(free) = free_gigabytes(&folder).filter(|free| *free < WANTED) else { return Ok(()) };
    println!("{free:.1} GB are free for {}: earlier builds of this workspace go", folder.display());
    let packages = metadata::packages()?;
    // This program is running.
    let names = packages.iter().map(metadata::name).filter(|name| *name != "xtask");
    let names: Vec<_> = names.flat_map(|name| ["--package", name]).collect();
    for profile in PROFILES {
        let mut clean = cargo();
        clean.args(["clean", "--quiet", "--profile", profile, "--target-dir"]).arg(&folder);
        let status = clean.args(&names).stdin(Stdio::null()).status();
        let status = status.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("earlier builds were not taken away ({status})"));
        }
    }
    let free = free_gigabytes(&folder).unwrap_or(free);
    let enough = if free < WANTED { ", which may be too little" } else { "" };
    println!("now {free:.1} GB are free{enough}");
    Ok(())
}

/// What is free for us where this folder lies; `None` if nobody can say.
fn free_gigabytes(folder: &Path) -> Option<f64> {
    let output = Command::new("df").arg("-Pk").arg(folder).stderr(Stdio::null()).output().ok()?;
    available(&String::from_utf8_lossy(&output.stdout))
}

/// The fourth column of what POSIX's `df -Pk` says: kibibytes.
fn available(table: &str) -> Option<f64> {
    let kibibytes: f64 = table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kibibytes * 1024.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_free_is_read() {
        let table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                     /dev/vda 264212084 49000000 45000000 52% /\n";
        assert_eq!(available(table), Some(46.08));
        assert_eq!(available("df: no such file\n"), None);
        assert!(cfg!(windows) || free_gigabytes(Path::new(".")).is_some());
    }
}
