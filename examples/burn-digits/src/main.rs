//! Trains a small CNN on handwritten digits under a profiler.
//!
//! `cargo run --release -p burn-digits -- --profiler simple`

use std::error::Error;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use burn::module::Module;
use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{EvaluatorBuilder, Learner, SupervisedTraining, TrainingError};
use burn_digits::data::{Digit, Splits, loader, splits};
use burn_digits::model::DigitNet;
use burn_digits::progress::Progress;
use clap::Parser;
use digits::{Measured, Options, Plant, PlantOptions, finish};
use mlprof_burn::prelude::*;

/// Train a small network on handwritten digits, and report where the time went
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Device to train on
    #[arg(long, value_enum, default_value_t)]
    device: DeviceName,
    #[command(flatten)]
    planting: PlantOptions,
}

/// Devices of this build.
#[derive(Debug, Clone, Copy, Default, clap::ValueEnum)]
enum DeviceName {
    /// CPU, with burn's own Rust kernels
    #[default]
    Flex,
    /// First CUDA device
    #[cfg(feature = "cuda")]
    Cuda,
    /// First WebGPU device, which may be a software renderer
    #[cfg(feature = "wgpu")]
    Wgpu,
}

impl DeviceName {
    fn device(self) -> Device {
        match self {
            Self::Flex => Device::flex(),
            #[cfg(feature = "cuda")]
            Self::Cuda => Device::cuda(burn::tensor::DeviceIndex::Default),
            #[cfg(feature = "wgpu")]
            Self::Wgpu => Device::wgpu(burn::tensor::DeviceKind::DefaultDevice),
        }
    }
}

fn main() -> ExitCode {
    let Arguments { options, device, planting: PlantOptions { plant } } = Arguments::parse();
    finish("burn-digits", &options, |profiler| run(&options, &device.device(), plant, profiler))
}

fn run(
    options: &Options,
    device: &Device,
    plant: Option<Plant>,
    profiler: &Arc<dyn Profiler>,
) -> Result<f64, Box<dyn Error>> {
    let Splits { train, valid, test } = splits(options.seed)?;
    let directory = tempfile::tempdir()?;
    let mut measured = Measured::new(profiler);
    let fit = || fit(options, device, plant, profiler, directory.path(), (train, valid));
    let trained = measured.stage(fit);
    let evaluated = trained.and_then(|model| {
        measured.stage(|| evaluate(options, profiler, directory.path(), &model, &test))?;
        Ok(model)
    });
    // Reports are also written after an error, so that the measurements so far are not lost.
    options.profiling.write_reports(measured.reports())?;
    Ok(accuracy(&evaluated?, test, options.batch_size)?)
}

fn fit(
    options: &Options,
    device: &Device,
    plant: Option<Plant>,
    profiler: &Arc<dyn Profiler>,
    directory: &Path,
    (train, valid): (Vec<Digit>, Vec<Digit>),
) -> Result<DigitNet, Box<dyn Error>> {
    let device = device.clone().autodiff();
    device.seed(options.seed);
    let train = loader(train, options.batch_size, Some(options.seed));
    let valid = loader(valid, options.batch_size, None);
    let training = SupervisedTraining::new(directory, train, valid)
        .profiler(profiler.clone())
        .live(options.profiling.live)
        .seeded_with(options.seed)
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .renderer(Box::new(Progress::new()))
        .num_epochs(options.epochs);
    let rate = 2e-3 * Plant::of_learning_rate(plant);
    let net = DigitNet::seeded(options.seed, &device).plant(plant);
    let learner = Learner::new(net, AdamConfig::new().init(), ConstantLr::from(rate));
    let result = training.launch(learner)?;
    if let Some(interruption) = &result.interrupted {
        let reason = interruption.reason.as_deref().unwrap_or("no reason given");
        return Err(format!("training ended early: {reason}").into());
    }
    refuse(result.error.as_deref())?;
    Ok(result.model)
}

fn evaluate(
    options: &Options,
    profiler: &Arc<dyn Profiler>,
    directory: &Path,
    model: &DigitNet,
    test: &[Digit],
) -> Result<(), Box<dyn Error>> {
    let result = EvaluatorBuilder::new(directory)
        .profiler(profiler.clone())
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .renderer(Box::new(Progress::new()))
        .build(model.clone())?
        .eval("test", loader(test.to_vec(), options.batch_size, None));
    refuse(result.error.as_deref())
}

fn refuse(error: Option<&TrainingError>) -> Result<(), Box<dyn Error>> {
    error.map_or(Ok(()), |error| Err(error.to_string().into()))
}

/// Returns the share of correctly classified digits.
fn accuracy(
    model: &DigitNet,
    digits: Vec<Digit>,
    batch_size: usize,
) -> Result<f64, burn::data::dataset::DatasetError> {
    let number = digits.len();
    let mut right = 0;
    let loader = loader(digits, batch_size, None).to_device(&model.devices()[0]);
    for batch in loader.iter() {
        let batch = batch?;
        let guesses = model.forward(batch.images).argmax(1).flatten::<1>(0, 1);
        right += guesses.equal(batch.classes).int().sum().into_scalar::<i64>();
    }
    Ok(right as f64 / number as f64)
}
