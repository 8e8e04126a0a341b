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

/// Trains a small network on handwritten digits, with faults, and tells what they cost.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Faults<Fault>,
    #[command(flatten)]
    besides: Besides,
    /// All digits of the test are seen so many times.
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    test_times: usize,
    /// So many threads work on each op.
    #[arg(long, default_value_t = 1, value_name = "THREADS")]
    threads: i32,
}

/// What is computed in each step besides the network.
#[derive(Debug, Clone, Copy, clap::Args)]
struct Besides {
    /// How the pixels of images vary together that were enlarged to so many in a row.
    #[arg(long, value_name = "PIXELS")]
    spectrum: Option<i64>,
    /// Rows of images are brought to the same mean and deviation.
    #[arg(long)]
    normalize: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// Each training batch is read from the disk by the thread that trains.
    Loader,
    /// The network is saved after every epoch, which takes as long as a file for each variable.
    Checkpoints,
    /// The images of each step are enlarged and kept.
    History,
    /// What `--spectrum` asks for is computed in 64 bits.
    Doubles,
    /// The test computes what only training needs.
    Gradients,
    /// The mean and the deviation of a batch are read from their tensors anew for each pixel.
    Reads,
    /// What `--normalize` asks for is computed row by row.
    Rows,
    /// The first step reads a hundred files.
    FirstStep,
    /// Every tenth step writes five files.
    TenthSteps,
    /// Every step writes a file.
    Steps,
    /// Another thread writes a file in each step, and holds a lock meanwhile that the step takes, too.
    Lock,
    /// Six threads for each core ask all the time whether there is something to do.
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
