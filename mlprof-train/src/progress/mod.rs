//! Progress on standard error, so that reports on standard output can be piped.

mod bar;

use std::fmt::Write;

use super::error::{Result, TrainError};
use super::module::{Callback, HookContext, TrainModule};
use super::state::TrainerState;
use bar::Bar;
use mlprof_core::Stage;
use mlprof_core::output::say;
use mlprof_events::clock::Stopwatch;

/// Shows epoch, steps per second and loss: a bar on a terminal, a line per epoch elsewhere.
///
/// A [`Trainer`](super::Trainer) has one by default.
#[derive(Debug)]
pub(super) struct ProgressBar {
    bar: Option<Bar>,
    began: Stopwatch,
    batches: usize,
    /// Title of the running training epoch, of which a validation is then a part.
    epoch: Option<String>,
}

impl ProgressBar {
    /// Creates a bar if standard error is a terminal; otherwise, progress is printed as lines. A
    /// terminal whose `TERM` is `dumb` also gets lines.
    pub(super) fn new() -> Self {
        Self { bar: Bar::of_terminal(), began: Stopwatch::start(), batches: 0, epoch: None }
    }

    /// Begins a pass over the data.
    fn begin(&mut self, title: &str, trainer: &TrainerState) {
        self.began = Stopwatch::start();
        self.batches = 0;
        if let Some(bar) = &mut self.bar {
            bar.begin(title, trainer.num_batches());
        }
    }

    /// Changes the title of the bar.
    fn rename(&mut self, title: &str) {
        if let Some(bar) = &mut self.bar {
            title.clone_into(&mut bar.title);
            bar.draw();
        }
    }

    /// Counts a finished batch and updates the bar.
    fn advance(&mut self, trainer: &TrainerState) {
        self.batches += 1;
        if let Some(bar) = &mut self.bar {
            bar.length = bar.length.or(trainer.num_batches());
            bar.position = self.batches;
            if let (Some(loss), Stage::Fit) = (trainer.loss(), trainer.stage())
                && self.batches.is_multiple_of(16)
            {
                let mut suffix = format!("loss {loss:.4}");
                for (name, value) in trainer.metrics_of_passes().shown_of_steps() {
                    let _ = write!(suffix, ", {name} {value:.4}");
                }
                bar.suffix = suffix;
            }
            bar.draw_if_due();
        }
    }

    /// Ends a pass and prints its summary as a line that stays.
    fn finish(&mut self, title: &str, trainer: &TrainerState) {
        let seconds = self.began.elapsed().as_secs_f64();
        let rate = self.batches as f64 / seconds.max(f64::MIN_POSITIVE);
        let mut line =
            format!("{title}: {} batches in {seconds:.1} s ({rate:.1} step/s)", self.batches);
        if let (Some(loss), Stage::Fit) = (trainer.loss(), trainer.stage()) {
            // Writing into a string cannot fail.
            let _ = write!(line, ", loss {loss:.4}");
        }
        for (name, value) in trainer.metrics_of_passes().shown() {
            let _ = write!(line, ", {name} {value:.4}");
        }
        // The next pass draws the bar again, below the line.
        self.clear();
        say(line);
    }

    fn clear(&mut self) {
        if let Some(bar) = &mut self.bar {
            bar.clear();
        }
    }
}

fn epoch_title(trainer: &TrainerState) -> String {
    let epoch = trainer.epoch() + 1;
    trainer
        .max_epochs()
        .map_or_else(|| format!("epoch {epoch}"), |max| format!("epoch {epoch}/{max}"))
}

impl<M: TrainModule> Callback<M> for ProgressBar {
    fn on_train_epoch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        let title = epoch_title(trainer);
        self.begin(&title, trainer);
        self.epoch = Some(title);
        Ok(())
    }

    fn on_train_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.advance(trainer);
        Ok(())
    }

    fn on_train_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if let Some(title) = self.epoch.take() {
            self.finish(&title, trainer);
        }
        Ok(())
    }

    fn on_validation_epoch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        match self.epoch.clone() {
            Some(epoch) => self.rename(&format!("{epoch}, validating")),
            None if trainer.stage() == Stage::Validate => self.begin("validate", trainer),
            None => {}
        }
        Ok(())
    }

    fn on_validation_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        if self.epoch.is_none() && trainer.stage() == Stage::Validate {
            self.advance(trainer);
        }
        Ok(())
    }

    fn on_validation_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        match self.epoch.clone() {
            Some(epoch) => self.rename(&epoch),
            None if trainer.stage() == Stage::Validate => self.finish("validate", trainer),
            None => {}
        }
        Ok(())
    }

    fn on_test_epoch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.begin("test", trainer);
        Ok(())
    }

    fn on_test_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.advance(trainer);
        Ok(())
    }

    fn on_test_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.finish("test", trainer);
        Ok(())
    }

    fn on_predict_epoch_start(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.begin("predict", trainer);
        Ok(())
    }

    fn on_predict_batch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.advance(trainer);
        Ok(())
    }

    fn on_predict_epoch_end(
        &mut self,
        _: &mut HookContext<'_, M>,
        trainer: &mut TrainerState,
    ) -> Result<()> {
        self.finish("predict", trainer);
        Ok(())
    }

    fn teardown(&mut self, _: &mut HookContext<'_, M>, _trainer: &mut TrainerState) -> Result<()> {
        self.clear();
        Ok(())
    }

    fn on_exception(&mut self, _: &TrainError, _: &mut HookContext<'_, M>, _: &mut TrainerState) {
        self.clear();
    }
}
