//! How the programs end: reports, accuracy, exit code.

use std::error::Error;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use mlprof_core::{Profiler, Report};
use mlprof_train::{
    Callback, FitOutcome, HookContext, Result as HookResult, StopReason, TrainModule, TrainerState,
};

use crate::options::Options;

/// Runs the body of a program with the profiler that was asked for, and ends it: the accuracy goes
/// to standard output as `test accuracy: 97.2 %`, an error to standard error.
///
/// Exit code 0, 1 after an error, 2 for an unknown profiler.
pub fn finish(
    program: &str,
    options: &Options,
    body: impl FnOnce(&Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>>,
) -> ExitCode {
    command_line::run(program, &options.profiling, |profiler| {
        let accuracy = body(profiler)?;
        // Not `println!`, which panics when the reader has gone: `… | head`.
        let _ = writeln!(std::io::stdout(), "test accuracy: {:.1} %", accuracy * 100.0);
        Ok(())
    })
}

/// The reports of a program's stages, as `--json` writes them.
#[derive(Debug)]
pub struct Measured {
    profiler: Arc<dyn Profiler>,
    reports: Vec<Report>,
}

impl Measured {
    /// Collects the reports of this profiler.
    pub fn new(profiler: &Arc<dyn Profiler>) -> Self {
        Self { profiler: profiler.clone(), reports: Vec::new() }
    }

    /// Runs a stage and keeps its report, whatever the outcome.
    pub fn stage<T>(&mut self, stage: impl FnOnce() -> T) -> T {
        let outcome = stage();
        self.reports.extend(command_line::reports_of(&self.profiler));
        outcome
    }

    /// All reports so far.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }
}

/// An error if the fit was ended before its time.
///
/// # Errors
///
/// What ended it.
pub fn refuse_early_end(outcome: &FitOutcome) -> Result<(), Box<dyn Error>> {
    match &outcome.stopped {
        StopReason::MaxEpochs | StopReason::MaxSteps => Ok(()),
        reason => Err(format!("training ended early: {reason}").into()),
    }
}

/// Writes the loss of every training batch to a file, one per line, to the last bit: what
/// `--loss-curve` asks for.
#[derive(Debug)]
pub struct LossCurve {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LossCurve {
    /// Starts the file anew.
    ///
    /// # Errors
    ///
    /// The file's name and why it cannot be written.
    pub fn create(path: &Path) -> Result<Self, Box<dyn Error>> {
        let file = File::create(path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self { path: path.to_owned(), file: BufWriter::new(file) })
    }

    fn checked(&self, result: std::io::Result<()>) -> HookResult<()> {
        result.map_err(|error| format!("{}: {error}", self.path.display()).into())
    }
}

impl<M: TrainModule> Callback<M> for LossCurve {
    fn on_train_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> HookResult<()> {
        let Some(loss) = trainer.loss() else { return Ok(()) };
        // As many digits as it takes to read the same number back.
        let result = writeln!(self.file, "{loss:?}");
        self.checked(result)
    }

    fn on_train_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        _trainer: &mut TrainerState,
    ) -> HookResult<()> {
        let result = self.file.flush();
        self.checked(result)
    }
}
