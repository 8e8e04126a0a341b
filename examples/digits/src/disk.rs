//! A simulated slow disk for programs with faults. Its waiting times are known and do not depend on
//! the machine's load.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Number of waits in the process.
static WAITS: AtomicU64 = AtomicU64::new(0);

/// Simulated delay of file accesses. Flatten it into the options of a program with faults.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct Disk {
    /// Delay of each file read and write in milliseconds, like a slow disk
    #[arg(long, default_value_t = 0, value_name = "MILLISECONDS")]
    slow_disk: u64,
}

impl Disk {
    /// Waits for the duration of one file access.
    pub fn wait(self) {
        if self.slow_disk > 0 {
            WAITS.fetch_add(1, Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(self.slow_disk));
        }
    }

    /// Prints the total waiting time to standard error.
    pub fn tell(self) {
        let milliseconds = WAITS.load(Ordering::Relaxed) * self.slow_disk;
        if milliseconds > 0 {
            eprintln!("waited for the disk: {milliseconds} ms");
        }
    }
}
