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
    Disk, Faults, Loaders, Order, Splits, TrainerOptions, finish, loader, splits, train_and_test,
};
use profiler_core::prelude::profile;
use tch::{Device, Kind, Tensor};
use tch_digits::{Batch, Learner};
use tch_plugin::prelude::*;

/// Trains a small network on handwritten digits, with faults, and tells what they cost.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Faults<Fault>,
    /// How the pixels of enlarged images vary together is computed besides.
    #[arg(long)]
    spectrum: bool,
    /// All digits of the test are seen so many times.
    #[arg(long, default_value_t = 1, value_name = "TIMES")]
    test_times: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
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
}

/// The network's variables.
const FILES: usize = 8;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    tch::set_num_threads(1);
    let Faults { options, disk, .. } = &arguments.common;
    let exit = finish("tch-faults", options, |profiler| run(&arguments, profiler));
    disk.tell();
    exit
}

fn run(arguments: &Arguments, profiler: &Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
    let Arguments { common, spectrum, test_times } = arguments;
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
    let precision = if common.has(Fault::Doubles) { Kind::Double } else { Kind::Float };
    let mut learner = FaultyLearner {
        inner: Learner::new(options.seed, Device::Cpu),
        history: common.has(Fault::History).then(Vec::new),
        spectrum_in: spectrum.then_some(precision),
        tests_with_gradients: common.has(Fault::Gradients),
        reads_each_time: common.has(Fault::Reads),
        disk,
    };
    let test = in_order(std::iter::repeat_n(test, *test_times).flatten().collect());
    let loaders = Loaders { train: &train, valid: &in_order(valid), test: &test };
    let folder = tempfile::tempdir()?;
    let checkpoint_dir = common.has(Fault::Checkpoints).then(|| folder.path().to_owned());
    let trainer_options = TrainerOptions { checkpoint_dir, loss_curve: None, cuda: false };
    train_and_test(&mut learner, &loaders, options, &trainer_options, profiler)
}

/// Learns as the other one does, and does more than it needs to.
struct FaultyLearner {
    inner: Learner,
    history: Option<Vec<Tensor>>,
    spectrum_in: Option<Kind>,
    tests_with_gradients: bool,
    reads_each_time: bool,
    disk: Disk,
}

impl TrainModule for FaultyLearner {
    type Batch = Batch;
    type Optimizer = TchOptimizer;

    fn configure_optimizers(&mut self) -> TrainResult<Optimizers<TchOptimizer>> {
        self.inner.configure_optimizers()
    }

    fn training_step(&mut self, batch: &Batch, trainer: &mut TrainerState) -> TrainResult<Tensor> {
        if let Some(precision) = self.spectrum_in {
            drop(std::hint::black_box(spectrum(&batch.images, precision)?));
        }
        if self.reads_each_time {
            std::hint::black_box(contrast(&batch.images)?);
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

/// The images, twice as long and as wide.
fn enlarged(images: &Tensor) -> TrainResult<Tensor> {
    Ok(images.f_upsample_nearest2d([16, 16], None, None)?)
}

/// How the pixels of the images, twice as long and as wide, vary together.
#[profile]
fn spectrum(images: &Tensor, precision: Kind) -> TrainResult<Tensor> {
    let images = enlarged(images)?.f_to_kind(precision)?;
    let pixels = images.f_view([images.size()[0], -1])?;
    let mut power = pixels.f_transpose(0, 1)?.f_mm(&pixels)?;
    for _ in 0..4 {
        power = power.f_mm(&power)?;
        power = power.f_div(&power.f_norm()?)?;
    }
    Ok(power)
}

/// How far the pixels of enlarged images are from their mean, in deviations: both are read anew for each.
#[profile]
fn contrast(images: &Tensor) -> TrainResult<f64> {
    let images = enlarged(images)?;
    let (mean, deviation) = (images.f_mean(Kind::Float)?, images.f_std(true)?);
    let pixels = Vec::<f32>::try_from(images.f_view([-1])?)?;
    let far = |pixel: f32| {
        let beyond = f64::from(pixel) - mean.f_double_value(&[])?;
        Ok(beyond.abs() / deviation.f_double_value(&[])?)
    };
    pixels.into_iter().map(far).sum()
}
