//! The program around a training by several processes.

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use command_line::with_causes;
use digits::{
    Digit, Measured, Options, Order, Splits, loader, refuse_early_end, splits, test_accuracy,
};
use mlprof_core::{Profiler, RunContext};
use mlprof_train::{DataLoader, Result as TrainResult, TrainModule, Trainer};

use crate::Rank;
use crate::launch::launch;
use crate::process_group::{Meeting, ProcessGroup};

/// Number of steps after which `--lose-rank` takes effect.
const LOST_AFTER: usize = 10;

/// Options of a program that trains in several processes.
#[derive(Debug, Args)]
pub struct Arguments {
    #[command(flatten)]
    options: Options,
    /// Number of processes to start
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    processes: u32,
    /// Time in seconds that processes wait for each other
    #[arg(long, default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    timeout: u64,
    /// Rank that exits abruptly after 10 steps
    #[arg(long, value_name = "RANK")]
    lose_rank: Option<u32>,
    /// Rank that is slow in every step
    #[arg(long, value_name = "RANK")]
    slow_rank: Option<u32>,
    /// Part of the step in which --slow-rank is slow
    #[arg(long, value_enum, default_value_t = SlowAt::Data)]
    slow_at: SlowAt,
    /// Delay of --slow-rank per step in milliseconds
    #[arg(long, value_name = "MILLISECONDS", default_value_t = 30)]
    slow_by: u64,
}

/// Part of a step that can be slow.
#[derive(Debug, Clone, Copy, PartialEq, clap::ValueEnum)]
enum SlowAt {
    /// Reading batches
    Data,
    /// Running the network
    Forward,
}

impl Arguments {
    /// Returns the delay of this rank for `what`.
    fn slow_by(&self, run: &RunContext, what: SlowAt) -> Duration {
        let is_slow = self.slow_rank == Some(run.rank) && self.slow_at == what;
        if is_slow { Duration::from_millis(self.slow_by) } else { Duration::ZERO }
    }
}

/// A network that several processes train together.
pub trait ParallelModule: TrainModule {
    /// Checks that the weights of all processes are bit-identical.
    ///
    /// # Errors
    ///
    /// Returns an error with the rank that differs or is lost.
    fn check_weights(&mut self) -> Result<(), Box<dyn Error>>;
}

/// Starts the requested number of processes, or runs as one of them. Each process trains the module
/// that `make_module` creates from a seed, on digits that `make_batch` converts to batches.
pub fn run<M: ParallelModule<Batch: 'static>>(
    program: &str,
    arguments: &Arguments,
    make_module: impl FnOnce(u64, Rank) -> Result<M, Box<dyn Error>>,
    make_batch: fn(&[Digit]) -> TrainResult<M::Batch>,
) -> ExitCode {
    let run = RunContext::from_environment();
    command_line::run(program, &arguments.options.profiling, |profiler| {
        // A launcher may also start a single process and set these variables.
        let is_rank = run.world_size > 1 || std::env::var_os("RANK").is_some();
        if is_rank || arguments.processes == 1 {
            return train(arguments, profiler, &run, make_module, make_batch)
                .map_err(|error| format!("rank {}: {}", run.rank, with_causes(&*error)).into());
        }
        // This is enough time for the other ranks to notice the loss and to write their reports.
        let grace = Duration::from_secs(arguments.timeout + 5);
        Ok(launch(arguments.processes, grace)?)
    })
}

/// Runs the training of one process.
fn train<M: ParallelModule<Batch: 'static>>(
    arguments: &Arguments,
    profiler: &Arc<dyn Profiler>,
    run: &RunContext,
    make_module: impl FnOnce(u64, Rank) -> Result<M, Box<dyn Error>>,
    make_batch: fn(&[Digit]) -> TrainResult<M::Batch>,
) -> Result<(), Box<dyn Error>> {
    let options = &arguments.options;
    let group = join(arguments, run)?;
    let Splits { train, test, .. } = splits(options.seed)?;
    let lost_after = (arguments.lose_rank == Some(run.rank)).then_some(LOST_AFTER);
    let rank = Rank::new(group, lost_after, arguments.slow_by(run, SlowAt::Forward));
    let mut module = make_module(options.seed, rank)?;
    let slow_data = arguments.slow_by(run, SlowAt::Data);
    let mut trainer = Trainer::new()
        .profiler(profiler.clone())
        .max_epochs(options.epochs)
        .seed(options.seed)
        .run_context(run.clone());
    let mut measured = Measured::new(profiler);
    let trained = measured.stage(|| {
        let batches = batches(train, options, Order::Shuffled, slow_data, make_batch);
        let outcome = trainer.fit(&mut module, &batches, None)?;
        refuse_early_end(&outcome)
    });
    let tested = trained.and_then(|()| {
        module.check_weights()?;
        // All ranks have the same network, so only rank 0 tests it.
        let is_root = run.rank == 0;
        let tested = is_root.then(|| {
            let batches = batches(test, options, Order::Kept, Duration::ZERO, make_batch);
            measured.stage(|| trainer.test(&mut module, &batches))
        });
        Ok(tested.transpose()?)
    });
    if run.rank == 0 {
        // Reports are also written after an error, so that the measurements so far are not lost.
        options.profiling.write_reports(measured.reports())?;
    }
    let Some(outcome) = tested? else { return Ok(()) };
    let accuracy = test_accuracy(&outcome)?;
    // `println!` is avoided, because it panics if the reader has exited, as in `… | head`.
    let mut out = std::io::stdout();
    if run.world_size > 1 {
        let _ = writeln!(out, "{} processes have the same weights", run.world_size);
    }
    let _ = writeln!(out, "test accuracy: {:.1} %", accuracy * 100.0);
    Ok(())
}

fn join(arguments: &Arguments, run: &RunContext) -> Result<ProcessGroup, Box<dyn Error>> {
    let patience = Duration::from_secs(arguments.timeout);
    if run.world_size <= 1 {
        return Ok(ProcessGroup::alone());
    }
    Ok(ProcessGroup::join(run, &Meeting::from_environment(patience)?)?)
}

fn batches<B: 'static>(
    digits: Vec<Digit>,
    options: &Options,
    order: Order,
    slow_by: Duration,
    make_batch: fn(&[Digit]) -> TrainResult<B>,
) -> impl DataLoader<B> {
    loader(digits, options.batch_size, order, move |digits| {
        if !slow_by.is_zero() {
            std::thread::sleep(slow_by);
        }
        make_batch(digits)
    })
}
