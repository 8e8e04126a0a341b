//! Command-line options of programs with faults.

use clap::ValueEnum;

use crate::{Disk, Options};

/// Options of every program with faults. `Fault` is the enum of the faults of the program.
#[derive(Debug, Clone, clap::Parser)]
pub struct Faults<Fault: ValueEnum + Clone + Send + Sync + 'static> {
    /// Options of every program that trains on digits.
    #[command(flatten)]
    pub options: Options,
    /// Faults to simulate; separate several with commas
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULTS")]
    faults: Vec<Fault>,
    /// Simulated delay of file accesses.
    #[command(flatten)]
    pub disk: Disk,
}

impl<Fault: ValueEnum + Clone + PartialEq + Send + Sync + 'static> Faults<Fault> {
    /// Returns `true` if the fault is enabled.
    pub fn has(&self, fault: Fault) -> bool {
        self.faults.contains(&fault)
    }

    /// Returns the disk if the fault is enabled.
    pub fn disk_of(&self, fault: Fault) -> Option<Disk> {
        self.has(fault).then_some(self.disk)
    }
}
