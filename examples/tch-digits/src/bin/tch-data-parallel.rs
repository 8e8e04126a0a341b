//! Trains one network in two processes that average their gradients, with tch.
//!
//! `cargo xtask run tch-digits --bin tch-data-parallel -- --profiler simple --dirpath reports
//! --filename run --json-files` writes one report per process. The report of rank 0 also shows
//! which rank delays the others.

use std::process::ExitCode;

use clap::Parser;
use tch_digits::{Batch, ParallelLearner};

/// Train on handwritten digits in several processes, and report their times
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    parallel: parallel_training::Arguments,
}

fn main() -> ExitCode {
    let Arguments { parallel } = Arguments::parse();
    // The network is small, and the processes share the cores.
    tch::set_num_threads(1);
    let learner = |seed, rank| Ok(ParallelLearner::new(seed, rank));
    parallel_training::run("tch-data-parallel", &parallel, learner, |digits| {
        Ok(Batch::new(digits)?)
    })
}
