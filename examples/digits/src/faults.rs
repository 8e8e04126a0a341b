//! Command-line options of programs with faults.

use clap::ValueEnum;

use crate::{Disk, Options};

/// What every program with faults can be told: what all can, which faults, and how slow its disk is. `Fault`
/// are the program's own.
#[derive(Debug, Clone, clap::Parser)]
pub struct Faults<Fault: ValueEnum + Clone + Send + Sync + 'static> {
    /// What every example on the digits can be told.
    #[command(flatten)]
    pub options: Options,
    /// What is done wrong; several with commas between them.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULTS")]
    faults: Vec<Fault>,
    /// What reads and writes take.
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
