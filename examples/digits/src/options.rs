//! Command-line options shared by the examples.

use std::path::PathBuf;

use command_line::ProfilerOptions;

use crate::Plant;

/// What every example on the digits can be told. Flatten it into the program's own options.
#[derive(Debug, Clone, clap::Args)]
pub struct Options {
    /// Which profiler, and where its reports go.
    #[command(flatten)]
    pub profiling: ProfilerOptions,
    /// How often all training digits are seen.
    #[arg(long, default_value_t = 15)]
    pub epochs: usize,
    /// How many digits are learned from at once.
    #[arg(long, default_value_t = 32, value_parser = at_least_one)]
    pub batch_size: usize,
    /// The same seed gives the same network and the same accuracy.
    #[arg(long, default_value_t = 42)]
    pub seed: u64,
}

/// What examples with this project's trainer can be told besides.
#[derive(Debug, Clone, clap::Args)]
pub struct TrainerOptions {
    /// Save the network here after every epoch.
    #[arg(long, value_name = "DIR")]
    pub checkpoint_dir: Option<PathBuf>,
    /// Keep this many checkpoints with the lowest validation loss, and the latest as `last`, instead of all
    #[arg(long, value_name = "NUMBER", requires = "checkpoint_dir")]
    pub save_top_k: Option<usize>,
    /// Go on from a checkpoint of this program, as if it had not been interrupted
    #[arg(long, value_name = "FILE")]
    pub resume: Option<PathBuf>,
    /// End when the validation loss has not become lower for this many epochs
    #[arg(long, value_name = "EPOCHS")]
    pub patience: Option<usize>,
    /// Write the loss of every step, to the last bit.
    #[arg(long, value_name = "FILE")]
    pub loss_curve: Option<PathBuf>,
    /// Train on CUDA's first device; needs the feature `cuda`.
    #[arg(long)]
    pub cuda: bool,
    /// Begin with the weights of a checkpoint, be it of this program or of its twin in another framework.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// What to plant into it.
    #[command(flatten)]
    pub planting: PlantOptions,
}

/// What can be planted into an example's network.
#[derive(Debug, Clone, Copy, clap::Args)]
pub struct PlantOptions {
    /// Make a mistake in the numbers, for --profiler numerics to find.
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
