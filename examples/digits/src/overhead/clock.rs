//! What steps are timed with.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

/// A clock for steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, clap::ValueEnum)]
pub enum Clock {
    /// Time as it passes: what training takes.
    #[default]
    Wall,
    /// The processor time of all threads. What other programs take is not in it, nor is waiting:
    /// on a busy machine this sees smaller differences. Reading it takes some 0.3 µs.
    #[cfg(unix)]
    Cpu,
}

impl Clock {
    /// The time since some moment, the same one for the whole process.
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
    fn waiting_is_no_processor_time() {
        let clocks = [Clock::Wall, Clock::Cpu];
        let before = clocks.map(Clock::now);
        std::thread::sleep(Duration::from_millis(30));
        let [wall, _] = clocks.map(Clock::now);
        assert!(wall - before[0] >= Duration::from_millis(30));
        // Other tests may run meanwhile, so only work of our own can be waited for.
        let started = Clock::Cpu.now();
        while Clock::Cpu.now() - started < Duration::from_millis(5) {}
        assert!(Clock::Wall.now() > wall);
    }
}
