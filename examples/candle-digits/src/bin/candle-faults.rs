//! Trains on handwritten digits with optional performance faults, which mlprof's findings should
//! detect.
//!
//! `cargo run --release -p candle-digits --bin candle-faults -- --profiler simple --faults
//! loader,validation,logger --slow-disk 20`
//!
//! Run it again without one fault, and compare the time saved with the finding's prediction. Most
//! of a fault's time is waiting for a simulated slow disk, so it does not depend on the machine's
//! load.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::process::ExitCode;
use std::sync::Arc;

use candle_core::Device;
use candle_digits::{Batch, Learner};
use candle_nn::VarMap;
use clap::Parser;
use digits::{Disk, Faults, Measured, Order, Splits, finish, loader, refuse_early_end, splits};
use mlprof_candle::prelude::*;
use mlprof_train::Result as HookResult;

/// Train a small network on handwritten digits with faults, and report their cost
#[derive(Parser)]
struct Arguments {
    #[command(flatten)]
    common: Faults<Fault>,
    /// Maximum number of batches per epoch; a validation then has three [default: all]
    #[arg(long, value_name = "BATCHES")]
    limit_batches: Option<usize>,
}

#[derive(Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum Fault {
    /// The training thread unpacks the file of all digits twice per batch, for images and classes
    Loader,
    /// The network is validated after every batch
    Validation,
    /// The training thread writes the small variables to a log after each batch
    Logger,
    /// The trained network is evaluated, so candle records the graph of a backward pass
    Gradients,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let Faults { options, disk, .. } = &arguments.common;
    let exit = finish("candle-faults", options, |profiler| run(&arguments, profiler));
    disk.tell();
    exit
}

fn run(arguments: &Arguments, profiler: &Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>> {
    let Arguments { common, limit_batches } = arguments;
    let (options, disk) = (&common.options, common.disk);
    let Splits { train, valid, test } = splits(options.seed)?;
    let unpacks = common.has(Fault::Loader);
    let train = loader(train, options.batch_size, Order::Shuffled, move |digits| {
        if unpacks {
            for _of in ["images", "classes"] {
                disk.wait();
                std::hint::black_box(digits::digits()?);
            }
        }
        Ok(Batch::new(digits)?)
    });
    let in_order = |digits| {
        loader(digits, options.batch_size, Order::Kept, move |digits| {
            disk.wait();
            Ok(Batch::new(digits)?)
        })
    };
    let mut learner = Learner::new(options.seed, &Device::Cpu)?;
    if common.has(Fault::Gradients) {
        learner = learner.evaluating_with_gradients()?;
    }
    let mut trainer =
        Trainer::new().profiler(profiler.clone()).max_epochs(options.epochs).seed(options.seed);
    if common.has(Fault::Validation) {
        trainer = trainer.val_check_interval(1);
    }
    if let Some(batches) = *limit_batches {
        trainer = trainer.limit_train_batches(batches).limit_val_batches(3);
    }
    if common.has(Fault::Logger) {
        trainer = trainer.callback(WeightLogger::new(learner.vars().clone(), disk)?);
    }
    let mut measured = Measured::new(profiler);
    let outcome = measured.stage(|| trainer.fit(&mut learner, &train, Some(&in_order(valid))));
    options.profiling.write_reports(measured.reports())?;
    refuse_early_end(&outcome?)?;
    digits::test_accuracy(&Trainer::new().test(&mut learner, &in_order(test))?)
}

/// Maximum number of elements of logged variables.
const LARGEST_LOGGED: usize = 1024;

/// Writes the small variables as text, to a new file each time.
struct WeightLogger {
    vars: VarMap,
    folder: tempfile::TempDir,
    disk: Disk,
    written: u64,
}

impl WeightLogger {
    fn new(vars: VarMap, disk: Disk) -> std::io::Result<Self> {
        Ok(Self { vars, folder: tempfile::tempdir()?, disk, written: 0 })
    }
}

impl<M: TrainModule> Callback<M> for WeightLogger {
    fn on_train_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        _trainer: &mut TrainerState,
    ) -> HookResult<()> {
        // Each file has a new name. When an existing file is overwritten, some file systems wait
        // for the real disk, which must not be measured here.
        let path = self.folder.path().join(format!("weights-{}.txt", self.written));
        self.written += 1;
        let mut file = BufWriter::new(File::create(path)?);
        let vars = self.vars.all_vars().into_iter();
        for var in vars.filter(|var| var.elem_count() <= LARGEST_LOGGED) {
            for value in var.flatten_all()?.to_vec1::<f32>()? {
                write!(file, "{value:.9} ")?;
            }
        }
        self.disk.wait();
        Ok(file.flush()?)
    }
}
