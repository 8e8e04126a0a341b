//! Trains on handwritten digits with optional performance faults, which mlprof's findings should
//! detect.
//!
//! `cargo run --release -p burn-digits --bin burn-faults -- --profiler simple --faults
//! loader,renderer --slow-disk 20`

use std::error::Error;
use std::process::ExitCode;
use std::sync::Arc;

use burn::data::dataloader::batcher::Batcher;
use burn::data::dataloader::{DataLoader, DataLoaderBuilder};
use burn::data::dataset::InMemDataset;
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::store::ModuleRecord;
use burn::tensor::Device;
use burn::tensor::TensorReadError;
use burn::train::checkpoint::{Checkpointer, CheckpointerError, FileCheckpointer};
use burn::train::metric::{
    AccuracyMetric, LossMetric, Metric, MetricMetadata, MetricName, SerializedEntry,
};
use burn::train::{Learner, SupervisedTraining};
use burn_digits::data::{Batch, Digit, DigitBatcher, Splits, splits};
use burn_digits::model::DigitNet;
use burn_digits::progress::Quiet;
use clap::Parser;
use digits::{Disk, Faults, Measured};
use mlprof_burn::ProfiledBatcher;
use mlprof_burn::prelude::*;

/// Train a small network on handwritten digits with faults, and report their cost
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Faults<Fault>,
    /// Maximum number of training digits [default: all]
    #[arg(long, value_name = "DIGITS")]
    limit_digits: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// The training thread reads each training batch from the disk
    Loader,
    /// The renderer writes each metric of each batch to the disk
    Renderer,
    /// A metric of each training batch is written to the disk
    Metrics,
    /// The network is saved after every epoch
    Checkpoints,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Faults { options, disk, .. } = &arguments.common;
    let exit =
        command_line::run("burn-faults", &options.profiling, |profiler| run(&arguments, profiler));
    disk.tell();
    exit
}

fn run(arguments: &Arguments, profiler: &Arc<dyn Profiler>) -> Result<(), Box<dyn Error>> {
    let Arguments { common, limit_digits } = arguments;
    let options = &common.options;
    let device = Device::flex().autodiff();
    device.seed(options.seed);
    let directory = tempfile::tempdir()?;
    let Splits { mut train, valid, .. } = splits(options.seed)?;
    train.truncate(limit_digits.unwrap_or(usize::MAX));
    let train = loader(train, options.batch_size, common.disk_of(Fault::Loader));
    // The outputs of training metrics are written to the disk.
    let written = common.disk_of(Fault::Renderer);
    let mut training =
        SupervisedTraining::new(&directory, train, loader(valid, options.batch_size, None))
            .profiler(profiler.clone())
            .metrics((LossMetric::new(), AccuracyMetric::new()))
            .renderer(Box::new(Quiet::calling(move || written.into_iter().for_each(Disk::wait))))
            .num_epochs(options.epochs);
    if let Some(disk) = common.disk_of(Fault::Metrics) {
        training = training.metric_train(WrittenMetric(disk));
    }
    if let Some(disk) = common.disk_of(Fault::Checkpoints) {
        let files = |name| FileCheckpointer::new(directory.path(), name);
        let network = SlowFiles { inner: files("model"), disk };
        training =
            training.with_custom_checkpointers(network, files("optimizer"), files("scheduler"));
    }
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(2e-3));
    let mut measured = Measured::new(profiler);
    let result = measured.stage(|| training.launch(learner));
    options.profiling.write_reports(measured.reports())?;
    result?.error.map_or(Ok(()), |error| Err(error.to_string().into()))
}

fn loader(digits: Vec<Digit>, batch_size: usize, disk: Option<Disk>) -> Arc<dyn DataLoader<Batch>> {
    DataLoaderBuilder::new(ProfiledBatcher::new(ReadingBatcher(disk)))
        .batch_size(batch_size)
        .build(InMemDataset::new(digits))
}

/// A batcher that reads its items from a disk, if one is configured.
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

/// A metric without output, which writes to a disk.
#[derive(Clone)]
struct WrittenMetric(Disk);

impl Metric for WrittenMetric {
    type Input = ();

    fn name(&self) -> MetricName {
        Arc::new("Written".to_owned())
    }

    fn update(
        &mut self,
        (): &(),
        _metadata: &MetricMetadata,
    ) -> Result<SerializedEntry, TensorReadError> {
        self.0.wait();
        self.compute()
    }

    fn compute(&mut self) -> Result<SerializedEntry, TensorReadError> {
        Ok(SerializedEntry::not_available(None))
    }

    fn clear(&mut self) {}
}

/// Files on a slow disk.
struct SlowFiles {
    inner: FileCheckpointer,
    disk: Disk,
}

impl Checkpointer<ModuleRecord> for SlowFiles {
    fn save(&self, epoch: usize, record: ModuleRecord) -> Result<(), CheckpointerError> {
        self.disk.wait();
        self.inner.save(epoch, record)
    }

    fn delete(&self, epoch: usize) -> Result<(), CheckpointerError> {
        Checkpointer::<ModuleRecord>::delete(&self.inner, epoch)
    }

    fn restore(&self, epoch: usize) -> Result<ModuleRecord, CheckpointerError> {
        self.inner.restore(epoch)
    }
}
