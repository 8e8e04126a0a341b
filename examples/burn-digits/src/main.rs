//! Trains a small CNN on handwritten digits, under a profiler.
//!
//! `cargo run --release -p burn-digits -- --profiler simple`

use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use burn::optim::AdamConfig;
use burn::optim::lr_scheduler::constant::ConstantLr;
use burn::tensor::Device;
use burn::train::metric::{AccuracyMetric, LossMetric};
use burn::train::{EvaluatorBuilder, Learner, SupervisedTraining, TrainingError};
use burn_digits::data::{Digit, Splits, loader, splits};
use burn_digits::model::DigitNet;
use burn_digits::progress::Progress;
use burn_plugin::prelude::*;
use clap::Parser;
use profiler_core::{IntoProfiler, Report};

/// Trains a small network on handwritten digits and tells where the time went.
#[derive(Parser)]
struct Options {
    /// "simple", "advanced" or "none".
    #[arg(long, default_value = "none", value_name = "NAME")]
    profiler: String,
    /// Simple: self time, first call, quantiles and a row per thread.
    #[arg(long)]
    detailed: bool,
    /// Advanced: write a .prof file per action, which Python's pstats and snakeviz open.
    #[arg(long)]
    dump_stats: bool,
    /// Where report files go, with --filename.
    #[arg(long, value_name = "DIR")]
    dirpath: Option<PathBuf>,
    /// Write reports to files, {dirpath}/{stage}-{filename}.txt.
    #[arg(long, value_name = "NAME")]
    filename: Option<String>,
    /// Write all reports as JSON, too.
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[arg(long, default_value_t = 15)]
    epochs: usize,
    #[arg(long, default_value_t = 32)]
    batch_size: usize,
    /// The same seed gives the same network and the same accuracy.
    #[arg(long, default_value_t = 42)]
    seed: u64,
}

impl Options {
    fn make_profiler(&self) -> Result<Arc<dyn Profiler>, UnknownProfiler> {
        match self.profiler.trim().to_ascii_lowercase().as_str() {
            "simple" => self.simple().into_profiler(),
            "advanced" => self.advanced().into_profiler(),
            other => other.into_profiler(),
        }
    }

    fn simple(&self) -> SimpleProfiler {
        let mut profiler = SimpleProfiler::new();
        if let Some(dirpath) = &self.dirpath {
            profiler = profiler.dirpath(dirpath);
        }
        if let Some(filename) = &self.filename {
            profiler = profiler.filename(filename);
        }
        if self.detailed { profiler.detailed() } else { profiler }
    }

    fn advanced(&self) -> AdvancedProfiler {
        let mut profiler = AdvancedProfiler::new().dump_stats(self.dump_stats);
        if let Some(dirpath) = &self.dirpath {
            profiler = profiler.dirpath(dirpath);
        }
        if let Some(filename) = &self.filename {
            profiler = profiler.filename(filename);
        }
        profiler
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    let profiler = match options.make_profiler() {
        Ok(profiler) => profiler,
        Err(error) => {
            eprintln!("burn-digits: {error}");
            return ExitCode::from(2);
        }
    };
    match run(&options, &profiler) {
        Ok(accuracy) => {
            // Not `println!`, which panics when the reader has gone: `… | head`.
            let _ = writeln!(std::io::stdout(), "test accuracy: {:.1} %", accuracy * 100.0);
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("burn-digits: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(options: &Options, profiler: &Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
    let Splits { train, valid, test } = splits(options.seed)?;
    let directory = tempfile::tempdir()?;
    let mut reports = Vec::new();
    let trained = fit(options, profiler, directory.path(), train, valid);
    reports.extend(profiler.report());
    let evaluated = trained.and_then(|model| {
        evaluate(options, profiler, directory.path(), &model, &test)?;
        reports.extend(profiler.report());
        Ok(model)
    });
    // Also after Ctrl-C: what was measured until then is not lost.
    if let Some(file) = &options.json {
        write_json(file, &reports)?;
    }
    Ok(accuracy(&evaluated?, test, options.batch_size)?)
}

fn fit(
    options: &Options,
    profiler: &Arc<dyn Profiler>,
    directory: &Path,
    train: Vec<Digit>,
    valid: Vec<Digit>,
) -> Result<DigitNet, Box<dyn Error>> {
    let device = Device::flex().autodiff();
    device.seed(options.seed);
    let train = loader(train, options.batch_size, Some(options.seed));
    let valid = loader(valid, options.batch_size, None);
    let training = SupervisedTraining::new(directory, train, valid)
        .profiler(profiler.clone())?
        .log_dir(directory)
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .renderer(Box::new(Progress::new()))
        .num_epochs(options.epochs);
    let learner =
        Learner::new(DigitNet::new(&device), AdamConfig::new().init(), ConstantLr::from(2e-3));
    let result = training.launch(learner);
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
        .profiler(profiler.clone())?
        .log_dir(directory)
        .metrics((LossMetric::new(), AccuracyMetric::new()))
        .renderer(Box::new(Progress::new()))
        .build(model.clone())
        .eval("test", loader(test.to_vec(), options.batch_size, None));
    refuse(result.error.as_deref())
}

fn refuse(error: Option<&TrainingError>) -> Result<(), Box<dyn Error>> {
    error.map_or(Ok(()), |error| Err(error.to_string().into()))
}

/// The share of digits that the network knows.
fn accuracy(
    model: &DigitNet,
    digits: Vec<Digit>,
    batch_size: usize,
) -> Result<f64, burn::data::dataset::DatasetError> {
    let number = digits.len();
    let mut right = 0;
    for batch in loader(digits, batch_size, None).iter() {
        let batch = batch?;
        let guesses = model.forward(batch.images).argmax(1).flatten::<1>(0, 1);
        right += guesses.equal(batch.classes).int().sum().into_scalar::<i64>();
    }
    Ok(right as f64 / number as f64)
}

fn write_json(file: &Path, reports: &[Report]) -> Result<(), Box<dyn Error>> {
    let json = serde_json::to_string_pretty(reports)?;
    std::fs::write(file, json + "\n").map_err(|error| format!("{}: {error}", file.display()).into())
}
