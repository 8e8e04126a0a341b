//! Data of the operating system about this process.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns a line of `/proc/self/status`, converted to bytes.
fn status(name: &str) -> Option<u64> {
    let text = fs::read_to_string("/proc/self/status").ok()?;
    value_of(&text, name)
}

fn value_of(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

/// Returns the current memory of the process in bytes.
pub fn resident() -> Result<u64, String> {
    status("VmRSS").ok_or_else(|| "cannot read VmRSS in /proc/self/status".to_owned())
}

/// Returns the peak memory since [`forget_peak`] in bytes.
pub fn peak() -> Result<u64, String> {
    status("VmHWM").ok_or_else(|| "cannot read VmHWM in /proc/self/status".to_owned())
}

/// Resets the peak to the current memory.
pub fn forget_peak() -> Result<(), String> {
    fs::write("/proc/self/clear_refs", "5")
        .map_err(|error| format!("/proc/self/clear_refs: {error}"))
}

/// Returns the file of a library that the process has loaded.
pub fn loaded_library(name: &str) -> Option<PathBuf> {
    let maps = fs::read_to_string("/proc/self/maps").ok()?;
    path_in(&maps, name)
}

fn path_in(maps: &str, name: &str) -> Option<PathBuf> {
    let paths = maps.lines().filter_map(|line| line.find('/').map(|start| &line[start..]));
    let is_it = |path: &&str| {
        let file = Path::new(path).file_name().unwrap_or_default();
        file.to_string_lossy().starts_with(name)
    };
    paths.into_iter().find(is_it).map(PathBuf::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_found_by_their_whole_names() {
        let text = "Name:\tx\nVmHWM:\t   2048 kB\nVmRSS:\t1 kB\nThreads:\t3\n";
        assert_eq!(value_of(text, "VmHWM"), Some(2 << 20));
        assert_eq!(value_of(text, "VmRSS"), Some(1024));
        assert_eq!(value_of(text, "Vm"), None);
        assert_eq!(value_of(text, "Threads"), None);
    }

    #[test]
    fn libraries_are_found_by_the_names_of_their_files() {
        let maps = "\
55d0-55d1 r--p 00000000 fe:00 12   /usr/bin/libcupti-tool/program
7f00-7f01 r-xp 00000000 fe:00 13   /usr/local/cuda/lib64/libcupti.so.2025.1.0
7f02-7f03 rw-p 00000000 00:00 0
";
        let found = path_in(maps, "libcupti").expect("it is there");
        assert_eq!(found, Path::new("/usr/local/cuda/lib64/libcupti.so.2025.1.0"));
        assert_eq!(path_in(maps, "libcuda.so"), None);
    }
}
