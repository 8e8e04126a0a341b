//! Command-line options shared by the examples.

use std::path::PathBuf;

use command_line::ProfilerOptions;

use crate::Plant;

/// Options of every program that trains on digits. Flatten them into the options of the program.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Options of the profiler and of its reports.
    #[command(flatten)]
    pub profiling: ProfilerOptions,
    /// Number of passes over the training digits
    #[arg(long, default_value_t = 15)]
    pub epochs: usize,
    /// Number of digits per batch
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub batch_size: usize,
    /// Random seed
    ///
    /// The same seed gives the same network and the same accuracy.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

/// Additional options of programs that use the trainer of this workspace.
#[derive(Debug, Clone, clap::Args)]
pub struct TrainerOptions {
    /// Folder for checkpoints, saved after every epoch
    #[arg(long, value_name = "FOLDER")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Number of checkpoints to keep: those with the lowest validation loss [default: all]
    ///
    /// The latest checkpoint is also kept, as `last`.
    #[arg(long, value_name = "N", requires = "checkpoint_dir")]
    pub save_top_k: Option<usize>,
    /// Resume the training from a checkpoint of this program
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// Number of epochs without a lower validation loss after which to stop
    #[arg(long, value_name = "EPOCHS")]
    pub patience: Option<usize>,
    /// Write the exact loss of every step to FILE
    #[arg(long, value_name = "FILE")]
    pub loss_curve: Option<PathBuf>,
    /// Train on the first CUDA device (feature `cuda`)
    #[arg(long)]
    pub cuda: bool,
    /// Start with the weights of a checkpoint
    ///
    /// The checkpoint may come from this program or from the same program for another framework.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Numerical errors to plant.
    #[command(flatten)]
    pub planting: PlantOptions,
}

/// Numerical errors to plant into the network.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PlantOptions {
    /// Plant a numerical error, for --profiler numerics to find
    #[arg(long, value_name = "MISTAKE")]
    pub plant: Option<Plant>,
}

fn at_least_one(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(0) => Err("use 1 or more".to_owned()),
        Ok(number) => Ok(number),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Program {
        #[command(flatten)]
        options: Options,
    }

    fn parse(arguments: &[&str]) -> Result<Options, clap::Error> {
        let arguments = ["program"].iter().chain(arguments);
        Program::try_parse_from(arguments).map(|program| program.options)
    }

    #[test]
    fn batches_of_nothing_are_refused() {
        let error = parse(&["--batch-size", "0"]).expect_err("refused").to_string();
        assert!(error.contains("use 1 or more"), "{error}");
        assert!(parse(&["--batch-size", "x"]).is_err());
    }
}
