//! Trains on handwritten digits and does what costs time for nothing, as it is asked to: a program to
//! see findings with.
//!
//! `cargo run --release -p candle-digits --bin candle-faults -- --profiler simple --faults
//! loader,validation,logger`
//!
//! Leave one fault out, and compare how long it takes then with what the finding had promised.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use candle_core::Device;
use candle_digits::{Batch, Learner};
use candle_nn::VarMap;
use candle_plugin::prelude::*;
use clap::Parser;
use digits::{Measured, Options, Order, Splits, finish, loader, refuse_early_end, splits};
use profiler_train::Result as HookResult;

/// Trains a small network on handwritten digits, with faults, and tells what they cost.
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    options: Options,
    /// What is done wrong; several with commas between them.
    #[arg(long, value_enum, value_delimiter = ',', value_name = "FAULTS")]
    faults: Vec<Fault>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// The file of all digits is unpacked for each batch, once for its images and once for its classes,
    /// by the thread that trains.
    Loader,
    /// The network is validated after every batch.
    Validation,
    /// All weights are logged as text after each batch, by the thread that trains.
    Logger,
}

fn main() -> ExitCode {
    let Arguments { options, faults } = Arguments::parse();
    finish("candle-faults", &options, |profiler| run(&options, &faults, profiler))
}

fn run(
    options: &Options,
    faults: &[Fault],
    profiler: &Arc<dyn Profiler>,
) -> Result<f64, Box<dyn Error>> {
    let has = |fault| faults.contains(&fault);
    let Splits { train, valid, test } = splits(options.seed)?;
    let unpacks = has(Fault::Loader);
    let train = loader(train, options.batch_size, Order::Shuffled, move |digits| {
        if unpacks {
            std::hint::black_box((digits::digits()?, digits::digits()?));
        }
        Ok(Batch::new(digits)?)
    });
    let in_order =
        |digits| loader(digits, options.batch_size, Order::Kept, |digits| Ok(Batch::new(digits)?));
    let mut learner = Learner::new(options.seed, &Device::Cpu)?;
    let mut trainer =
        Trainer::new().profiler(profiler.clone())?.max_epochs(options.epochs).seed(options.seed);
    if has(Fault::Validation) {
        trainer = trainer.val_check_interval(1);
    }
    if has(Fault::Logger) {
        trainer = trainer.callback(WeightLogger::new(learner.vars().clone())?);
    }
    let mut measured = Measured::new(profiler);
    let outcome = measured.stage(|| trainer.fit(&mut learner, &train, Some(&in_order(valid))));
    options.profiling.write_reports(measured.reports())?;
    refuse_early_end(&outcome?)?;
    digits::test_accuracy(&Trainer::new().test(&mut learner, &in_order(test))?)
}

/// Writes all weights as text, and every time anew.
struct WeightLogger {
    vars: VarMap,
    folder: tempfile::TempDir,
}

impl WeightLogger {
    fn new(vars: VarMap) -> std::io::Result<Self> {
        Ok(Self { vars, folder: tempfile::tempdir()? })
    }
}

impl Callback for WeightLogger {
    fn on_train_batch_end(&mut self, _trainer: &mut TrainerState) -> HookResult<()> {
        let mut file = BufWriter::new(File::create(self.folder.path().join("weights.txt"))?);
        for var in self.vars.all_vars() {
            for value in var.flatten_all()?.to_vec1::<f32>()? {
                write!(file, "{value:.9} ")?;
            }
        }
        Ok(file.flush()?)
    }
}
