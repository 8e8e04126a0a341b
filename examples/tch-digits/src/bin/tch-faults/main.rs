//! Trains on handwritten digits with optional time and memory faults, which mlprof's findings
//! should detect.
//!
//! `cargo xtask run tch-digits --bin tch-faults -- --profiler simple --faults loader,checkpoints
//! --slow-disk 30`

mod computing;
mod learner;
mod threads;

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use digits::{
    Faults, Loaders, Order, PlantOptions, Splits, TrainerOptions, finish, loader, splits,
    train_and_test,
};
use mlprof_core::Profiler;
use tch_digits::Batch;

use crate::learner::FaultyLearner;
use crate::threads::Pollers;

/// Train a small network on handwritten digits with faults, and report their cost
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Faults<Fault>,
    #[command(flatten)]
    besides: Besides,
    /// Number of passes over the test digits
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    test_times: usize,
    /// Number of threads per op
    #[arg(long, default_value_t = 1, value_name = "THREADS")]
    threads: i32,
}

/// Additional computations of each step.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Besides {
    /// Compute the pixel covariance of images enlarged to a width of PIXELS
    #[arg(long, value_name = "PIXELS")]
    spectrum: Option<i64>,
    /// Normalize the rows of images to the same mean and deviation
    #[arg(long)]
    normalize: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// The training thread reads each training batch from the disk
    Loader,
    /// The network is saved after every epoch, with one disk delay per variable
    Checkpoints,
    /// The enlarged images of each step are kept
    History,
    /// --spectrum computes in 64 bits
    Doubles,
    /// The test also computes what only training needs
    Gradients,
    /// The mean and deviation of a batch are read from their tensors for each pixel
    Reads,
    /// --normalize computes row by row
    Rows,
    /// The first step reads 100 files
    FirstStep,
    /// Every tenth step writes 5 files
    TenthSteps,
    /// Every step writes a file
    Steps,
    /// In each step, another thread writes a file while it holds a lock that the step needs
    Lock,
    /// Six threads per core poll for work in a busy loop
    Pollers,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tch::set_num_threads(arguments.threads);
    let Faults { options, disk, .. } = &arguments.common;
    let exit = finish("tch-faults", options, |profiler| run(&arguments, profiler));
    disk.tell();
    exit
}

fn run(arguments: &Arguments, profiler: &Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
    let Arguments { common, besides, test_times, threads: _ } = arguments;
    let (options, disk) = (&common.options, common.disk);
    let Splits { train, valid, test } = splits(options.seed)?;
    let reads = common.has(Fault::Loader);
    let train = loader(train, options.batch_size, Order::Shuffled, move |digits| {
        if reads {
            disk.wait();
        }
        Ok(Batch::new(digits)?)
    });
    let in_order =
        |digits| loader(digits, options.batch_size, Order::Kept, |digits| Ok(Batch::new(digits)?));
    let test = in_order(std::iter::repeat_n(test, *test_times).flatten().collect());
    let loaders = Loaders { train: &train, valid: &in_order(valid), test: &test };
    let folder = tempfile::tempdir()?;
    let checkpoint_dir = common.has(Fault::Checkpoints).then(|| folder.path().to_owned());
    let trainer_options = TrainerOptions {
        checkpoint_dir,
        save_top_k: None,
        resume: None,
        patience: None,
        loss_curve: None,
        cuda: false,
        planting: PlantOptions { plant: None },
        weights: None,
    };
    let mut learner = FaultyLearner::new(common.clone(), *besides);
    let _pollers = common.has(Fault::Pollers).then(Pollers::start);
    train_and_test(&mut learner, &loaders, options, &trainer_options, profiler)
}
