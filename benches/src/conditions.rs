//! The conditions of a measurement.

use std::fmt;
use std::thread::available_parallelism;

/// The machine and the build. Results in nanoseconds are meaningless without them.
#[derive(Debug, Clone)]
pub struct Conditions {
    cpu: String,
    cores: usize,
}

impl Conditions {
    /// Detects this machine and this build.
    pub fn here() -> Self {
        Self { cpu: cpu_model(), cores: available_parallelism().map_or(1, usize::from) }
    }

    /// Returns the number of threads that can run in parallel.
    pub fn cores(&self) -> usize {
        self.cores
    }
}

impl fmt::Display for Conditions {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (os, architecture) = (std::env::consts::OS, std::env::consts::ARCH);
        writeln!(formatter, "CPU:   {}, {} cores, {os} {architecture}", self.cpu, self.cores)?;
        write!(formatter, "build: {}, opt-level {}", env!("BENCH_RUSTC"), env!("BENCH_OPT_LEVEL"))?;
        let checked = if cfg!(debug_assertions) { ", with debug assertions" } else { "" };
        writeln!(formatter, "{checked}")
    }
}

fn cpu_model() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.trim() == "model name").then(|| value.trim().to_owned())
    });
    model.unwrap_or_else(|| "unknown CPU".to_owned())
}
