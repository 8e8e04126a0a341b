//! Processor of this machine.

use std::fs;

use serde::{Deserialize, Serialize};

/// Processor, as far as it determines the peaks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Processor {
    /// Operating system and architecture: `linux x86_64`.
    pub system: String,
    /// Name, as reported by the operating system. `None` if it is unknown.
    pub cpu: Option<String>,
    /// Number of cores that this process may use.
    pub cores: u64,
    /// Governor of the clock, such as `performance`. `None` if it is unknown.
    pub governor: Option<String>,
    /// Size of the last-level cache in bytes. `None` if it is unknown.
    pub last_cache_bytes: Option<u64>,
}

impl Processor {
    /// Reads the processor of this machine.
    pub(super) fn read() -> Self {
        let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = info.lines().find_map(|line| {
            let (key, value) = line.split_once(':')?;
            (key.trim() == "model name").then(|| value.trim().to_owned())
        });
        let system = "/sys/devices/system/cpu/cpu0";
        let text = |path: &str| Some(fs::read_to_string(path).ok()?.trim().to_owned());
        let cache = |index: u32| bytes(&text(&format!("{system}/cache/index{index}/size"))?);
        Self {
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: name.filter(|name| !name.is_empty()),
            cores: std::thread::available_parallelism().map_or(1, |cores| cores.get() as u64),
            governor: text(&format!("{system}/cpufreq/scaling_governor")),
            last_cache_bytes: (0..5).filter_map(cache).max(),
        }
    }
}

/// Reads a size such as `32768K`.
fn bytes(size: &str) -> Option<u64> {
    let digits = size.trim_end_matches(['K', 'M', 'G']);
    let number: u64 = digits.parse().ok()?;
    let shift = match size.as_bytes().last()? {
        b'K' => 10,
        b'M' => 20,
        b'G' => 30,
        _ => 0,
    };
    number.checked_shl(shift)
}

#[cfg(test)]
mod tests {
    #[test]
    fn sizes_of_caches_are_read() {
        let sizes = ["32768K", "1M", "512", "x"].map(super::bytes);
        assert_eq!(sizes, [Some(32 << 20), Some(1 << 20), Some(512), None]);
    }
}
