//! Program exit: reports, accuracy and exit code.

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

/// Runs the body of a program with the requested profiler and returns its exit code. The accuracy
/// goes to standard output as `test accuracy: 97.2 %`, and an error to standard error.
///
/// The exit code is 0, 1 after an error, or 2 for an unknown profiler.
pub fn finish(
    program: &str,
    options: &Options,
    body: impl FnOnce(&Arc<dyn Profiler>) -> Result<f64, Box<dyn Error>>,
) -> ExitCode {
    command_line::run(program, &options.profiling, |profiler| {
        let accuracy = body(profiler)?;
        // `println!` is avoided, because it panics if the reader has exited, as in `… | head`.
        let _ = writeln!(std::io::stdout(), "test accuracy: {:.1} %", accuracy * 100.0);
        Ok(())
    })
}

/// The reports of a program's stages, in the form that `--json` writes.
#[derive(Debug)]
pub struct Measured {
    profiler: Arc<dyn Profiler>,
    reports: Vec<Report>,
}

impl Measured {
    /// Creates a collection for the reports of `profiler`.
    pub fn new(profiler: &Arc<dyn Profiler>) -> Self {
        Self { profiler: profiler.clone(), reports: Vec::new() }
    }

    /// Runs a stage and stores its report, regardless of the outcome.
    pub fn stage<T>(&mut self, stage: impl FnOnce() -> T) -> T {
        let outcome = stage();
        self.reports.extend(command_line::reports_of(&self.profiler));
        outcome
    }

    /// Returns all reports so far.
    pub fn reports(&self) -> &[Report] {
        &self.reports
    }
}

/// Returns an error if the fit ended early.
///
/// # Errors
///
/// Returns the reason for the early end.
pub fn refuse_early_end(outcome: &FitOutcome) -> Result<(), Box<dyn Error>> {
    match &outcome.stopped {
        StopReason::MaxEpochs | StopReason::MaxSteps => Ok(()),
        reason => Err(format!("training ended early: {reason}").into()),
    }
}

/// Writes the loss of every training batch to a file, one per line and in full precision.
/// `--loss-curve` enables it.
#[derive(Debug)]
pub struct LossCurve {
    path: PathBuf,
    file: BufWriter<File>,
}

impl LossCurve {
    /// Creates the file or truncates it.
    ///
    /// # Errors
    ///
    /// Returns an error with the file name and the reason.
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
        // The `Debug` format has enough digits to restore the same number.
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
