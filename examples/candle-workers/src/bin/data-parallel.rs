//! Trains one network in two processes that average their gradients.
//!
//! `cargo run --release -p candle-workers --bin data-parallel -- --profiler simple --dirpath
//! reports --filename run` writes `reports/fit-run-0.txt` and `reports/fit-run-1.txt`.
//!
//! The program starts itself once per process. Under `torchrun`, `mpirun` or `srun`, it is one of
//! the launched processes. `MASTER_ADDR` and `MASTER_PORT` must then contain the address of rank 0.

use std::process::ExitCode;

use candle_digits::Batch;
use candle_workers::parallel::ParallelLearner;
use clap::Parser;

/// Train on handwritten digits in several processes, and report their times
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    parallel: parallel_training::Arguments,
}

fn main() -> ExitCode {
    let Arguments { parallel } = Arguments::parse();
    let learner = |seed, rank| Ok(ParallelLearner::new(seed, rank)?);
    parallel_training::run("data-parallel", &parallel, learner, |digits| Ok(Batch::new(digits)?))
}
