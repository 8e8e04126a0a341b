//! Frees disk space for builds. Cargo keeps the build output of every earlier state of a package.
//! The workspace's tests are large programs with frameworks, so this output fills a disk within
//! days, and builds then fail.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::metadata;
use crate::steps::{cargo, target_directory};

/// Minimum free gigabytes, below which earlier builds are deleted. It is more than a run adds.
const WANTED: f64 = 20.0;

/// The build profiles of the workspace's packages.
const PROFILES: [&str; 4] = ["dev", "release", "tested", "quick"];

/// Deletes earlier builds of the workspace's packages if the disk is nearly full, and prints a
/// message. Builds of third-party dependencies are kept, because they take much longer.
pub fn make_room() -> Result<(), String> {
    let folder = target_directory();
    let Some(free) = free_gigabytes(&folder).filter(|free| *free < WANTED) else { return Ok(()) };
    println!(
        "only {free:.1} GB are free for {}: deleting earlier builds of this workspace",
        folder.display()
    );
    let packages = metadata::packages()?;
    // xtask itself is excluded, because this program is running.
    let names = packages.iter().map(metadata::name).filter(|name| *name != "xtask");
    let names: Vec<_> = names.flat_map(|name| ["--package", name]).collect();
    for profile in PROFILES {
        let mut clean = cargo();
        clean.args(["clean", "--quiet", "--profile", profile, "--target-dir"]).arg(&folder);
        let status = clean.args(&names).stdin(Stdio::null()).status();
        let status = status.map_err(|error| format!("cannot run cargo: {error}"))?;
        if !status.success() {
            return Err(format!("cannot delete earlier builds ({status})"));
        }
    }
    let free = free_gigabytes(&folder).unwrap_or(free);
    let enough = if free < WANTED { ", which may be too little" } else { "" };
    println!("{free:.1} GB are free now{enough}");
    Ok(())
}

/// Returns the free gigabytes for this user on the folder's file system, or `None` if unknown.
fn free_gigabytes(folder: &Path) -> Option<f64> {
    let output = Command::new("df").arg("-Pk").arg(folder).stderr(Stdio::null()).output().ok()?;
    available(&String::from_utf8_lossy(&output.stdout))
}

/// Returns the available space from the fourth column of POSIX `df -Pk`, which is in kibibytes.
fn available(table: &str) -> Option<f64> {
    let kibibytes: f64 = table.lines().nth(1)?.split_whitespace().nth(3)?.parse().ok()?;
    Some(kibibytes * 1024.0 / 1e9)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn free_space_is_parsed() {
        let table = "Filesystem 1024-blocks Used Available Capacity Mounted on\n\
                     /dev/vda 264212084 49000000 45000000 52% /\n";
        assert_eq!(available(table), Some(46.08));
        assert_eq!(available("df: no such file\n"), None);
        assert!(cfg!(windows) || free_gigabytes(Path::new(".")).is_some());
    }
}
