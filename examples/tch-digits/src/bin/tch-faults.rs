//! Trains on handwritten digits and does what costs time or memory for nothing, as it is asked to: a
//! program to see findings with.
//!
//! `cargo xtask run tch-digits --bin tch-faults -- --profiler simple --faults loader,checkpoints
//! --slow-disk 30`

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Parser;
use digits::{
    Disk, Loaders, Options, Order, SIDE, Splits, TrainerOptions, finish, loader, splits,
    train_and_test,
};
use tch::{Device, Kind, Tensor};
use tch_digits::{Batch, Learner};
use tch_plugin::prelude::*;

/// Trains a small network on handwritten digits, with faults, and tells what they cost.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// What is done wrong; several with commas between them.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULTS")]
    faults: Vec<Fault>,
    #[command(flatten)]
    disk: Disk,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// Each training batch is read from the disk by the thread that trains.
    Loader,
    /// The network is saved after every epoch, which takes as long as a file for each variable.
    Checkpoints,
    /// The images of each step are enlarged and kept.
    History,
    /// How the images of a batch vary together is computed besides, in 64 bits.
    Doubles,
    /// The test computes what only training needs.
    Gradients,
    /// Each step adds up the pixels of its batch by reading them one by one.
    Reads,
}

/// The network's variables.
const FILES: usize = 8;

fn main() -> ExitCode {
    let Arguments { options, faults, disk } = Arguments::parse();
    tch::set_num_threads(1);
    let exit = finish("tch-faults", &options, |profiler| run(&options, &faults, disk, profiler));
    disk.tell();
    exit
}

fn run(
    options: &Options,
    faults: &[Fault],
    disk: Disk,
    profiler: &Arc<dyn Profiler>,
) -> Result<f64, Box<dyn Error>> {
    let has = |fault| faults.contains(&fault);
    let Splits { train, valid, test } = splits(options.seed)?;
    let reads = has(Fault::Loader);
    let train = loader(train, options.batch_size, Order::Shuffled, move |digits| {
        if reads {
            disk.wait();
        }
        Ok(Batch::new(digits)?)
    });
    let in_order =
        |digits| loader(digits, options.batch_size, Order::Kept, |digits| Ok(Batch::new(digits)?));
    let mut learner = FaultyLearner {
        inner: Learner::new(options.seed, Device::Cpu),
        history: has(Fault::History).then(Vec::new),
        looks_twice: has(Fault::Doubles),
        tests_with_gradients: has(Fault::Gradients),
        reads_pixels: has(Fault::Reads),
        disk,
    };
    let loaders = Loaders { train: &train, valid: &in_order(valid), test: &in_order(test) };
    let folder = tempfile::tempdir()?;
    let checkpoint_dir = has(Fault::Checkpoints).then(|| folder.path().to_owned());
    let trainer_options = TrainerOptions { checkpoint_dir, loss_curve: None, cuda: false };
    train_and_test(&mut learner, &loaders, options, &trainer_options, profiler)
}

/// Learns as the other one does, and does more than it needs to.
struct FaultyLearner {
    inner: Learner,
    history: Option<Vec<Tensor>>,
    looks_twice: bool,
    tests_with_gradients: bool,
    reads_pixels: bool,
    disk: Disk,
}

impl TrainModule for FaultyLearner {
    type Batch = Batch;
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        self.inner.configure_optimizers()
    }

    fn training_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<Tensor> {
        if self.looks_twice {
            drop(std::hint::black_box(spectrum(&batch.images)?));
        }
        if self.reads_pixels {
            std::hint::black_box(sum_of_pixels(&batch.images)?);
        }
        if let Some(history) = &mut self.history {
            history.push(batch.images.f_upsample_nearest2d([32, 32], None, None)?);
        }
        self.inner.training_step(batch, trainer)
    }

    fn validation_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        self.inner.validation_step(batch, trainer)
    }

    fn test_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<()> {
        if !self.tests_with_gradients {
            return self.inner.test_step(batch, trainer);
        }
        let loss = self.inner.training_step(batch, trainer)?.f_double_value(&[])?;
        trainer.log("test_accuracy", (-loss).exp());
        Ok(())
    }

    fn save_checkpoint(&mut self, path: &Path) -> TrainResult<()> {
        (0..FILES).for_each(|_file| self.disk.wait());
        self.inner.save_checkpoint(path)
    }
}

/// How the images vary together, in 64 bits.
fn spectrum(images: &Tensor) -> TrainResult<Tensor> {
    let pixels = images.f_to_kind(Kind::Double)?.f_view([images.size()[0], -1])?;
    let mut power = pixels.f_mm(&pixels.f_transpose(0, 1)?)?;
    for _ in 0..4 {
        power = power.f_mm(&power)?;
        power = power.f_div(&power.f_norm()?)?;
    }
    Ok(power)
}

/// What `images.sum()` would say, by one read for each pixel.
fn sum_of_pixels(images: &Tensor) -> TrainResult<f64> {
    let mut sum = 0.0;
    for row in images.f_view([-1, SIDE as i64])?.f_unbind(0)? {
        for pixel in row.f_unbind(0)? {
            sum += pixel.f_double_value(&[])?;
        }
    }
    Ok(sum)
}
