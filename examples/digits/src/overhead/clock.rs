//! Clocks for timing steps.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// Clock for step times.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Clock {
    /// Elapsed time
    #[default]
    Wall,
    /// CPU time of all threads, without waiting and other programs
    ///
    /// On a busy machine, it shows smaller differences than elapsed time. Reading it takes about
    /// 0.3 µs.
    #[cfg(unix)]
    Cpu,
}

impl Clock {
    /// Returns the time since a fixed moment of the process.
    pub fn now(self) -> Duration {
        match self {
            Self::Wall => {
                static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);
                BEGAN.elapsed()
            }
            #[cfg(unix)]
            Self::Cpu => {
                let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
                Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
            }
        }
    }
}

impl std::fmt::Display for Clock {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(match self {
            Self::Wall => "wall",
            #[cfg(unix)]
            Self::Cpu => "cpu",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_passes_while_waiting() {
        let before = Clock::Wall.now();
        std::thread::sleep(Duration::from_millis(30));
        assert!(Clock::Wall.now() - before >= Duration::from_millis(30));
    }

    #[test]
    #[cfg(unix)]
    fn work_takes_processor_time() {
        let wall = Clock::Wall.now();
        let before = Clock::Cpu.now();
        while Clock::Cpu.now() - before < Duration::from_millis(5) {
            assert!(Clock::Wall.now() - wall < Duration::from_secs(60), "it stands still");
        }
    }
}
