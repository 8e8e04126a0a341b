//! Trains on handwritten digits and does what costs time for nothing, as it is asked to: a program to
//! see findings with.
//!
//! `cargo run --release -p burn-digits --bin burn-faults -- --profiler simple --faults loader,renderer
//! --slow-disk 20`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{Learner, SupervisedTraining};
use burn_digits::data::{Batch, Digit, DigitBatcher, Splits, splits};
use burn_digits::model::DigitNet;
use burn_digits::progress::Quiet;
use burn_plugin::ProfiledBatcher;
use burn_plugin::prelude::*;
use clap::Parser;
use digits::{Disk, Measured, Options};

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
    /// The renderer writes to the disk for each metric of each batch.
    Renderer,
}

fn main() -> ExitCode {
    let Arguments { options, faults, disk } = Arguments::parse();
    let exit = command_line::run("burn-faults", &options.profiling, |profiler| {
        run(&options, &faults, disk, profiler)
    });
    disk.tell();
    exit
}

fn run(
    options: &Options,
    faults: &[Fault],
    disk: Disk,
    profiler: &Arc<dyn Profiler>,
) -> Result<(), Box<dyn Error>> {
    let only = |fault| Some(disk).filter(|_| faults.contains(&fault));
    let device = Device::flex().autodiff();
    device.seed(options.seed);
    let directory = tempfile::tempdir()?;
    let Splits { train, valid, .. } = splits(options.seed)?;
    let train = loader(train, options.batch_size, only(Fault::Loader));
    // What training metrics show is written to the disk.
    let written = only(Fault::Renderer);
    let training =
        SupervisedTraining::new(&directory, train, loader(valid, options.batch_size, None))
            .profiler(profiler.clone())?
            .metrics((LossMetric::new(), AccuracyMetric::new()))
            .renderer(Box::new(Quiet::calling(move || written.into_iter().for_each(Disk::wait))))
            .num_epochs(options.epochs);
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(2e-3));
    let mut measured = Measured::new(profiler);
    let result = measured.stage(|| training.launch(learner));
    options.profiling.write_reports(measured.reports())?;
    result.error.map_or(Ok(()), |error| Err(error.to_string().into()))
}

fn loader(digits: Vec<Digit>, batch_size: usize, disk: Option<Disk>) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(ProfiledBatcher::new(ReadingBatcher(disk)))
        .batch_size(batch_size)
        .build(InMemDataset::new(digits))
}

/// Reads what it makes tensors of from a disk, if there is one.
#[derive(Clone, Copy)]
struct ReadingBatcher(Option<Disk>);

impl Batcher<Digit, Batch> for ReadingBatcher {
    fn batch(&self, digits: Vec<Digit>, device: &Device) -> Batch {
        if let Some(disk) = self.0 {
            disk.wait();
        }
        DigitBatcher.batch(digits, device)
    }
}
