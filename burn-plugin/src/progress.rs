//! Progress loggers that are measured.

use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use profiler_core::{Action, ActiveScope, Interest};

use crate::actions;

/// A progress logger measured, on the thread where burn calls it, as `[ProgressLogger].progress`.
#[derive(Debug)]
pub struct ProfiledProgressLogger<L> {
    logger: L,
    action: Action,
}

impl<L> ProfiledProgressLogger<L> {
    /// Measures `logger`.
    pub fn new(logger: L) -> Self {
        Self { logger, action: Action::new(actions::PROGRESS_LOGGER) }
    }

    fn measured(&mut self) -> (&mut L, ActiveScope) {
        let action = self.action;
        (&mut self.logger, ActiveScope::open(|| action, Interest::ACTIONS))
    }
}

impl<L: TrainingProgressLogger> TrainingProgressLogger for ProfiledProgressLogger<L> {
    fn start(
        &mut self,
        total_epochs: usize,
        starting_epoch: usize,
        total_items: Option<usize>,
        label: Option<&str>,
    ) {
        let (logger, _scope) = self.measured();
        logger.start(total_epochs, starting_epoch, total_items, label);
    }

    fn update_epoch(&mut self, epoch: usize) {
        let (logger, _scope) = self.measured();
        logger.update_epoch(epoch);
    }

    fn start_split(&mut self, split: &str, total_items: usize) {
        let (logger, _scope) = self.measured();
        logger.start_split(split, total_items);
    }

    fn update_split(&mut self, items_processed: usize) {
        let (logger, _scope) = self.measured();
        logger.update_split(items_processed);
    }

    fn end_split(&mut self) {
        let (logger, _scope) = self.measured();
        logger.end_split();
    }

    fn end(&mut self) {
        let (logger, _scope) = self.measured();
        logger.end();
    }

    fn log_event_training(&mut self, event: String) {
        let (logger, _scope) = self.measured();
        logger.log_event_training(event);
    }
}

impl<L: EvaluationProgressLogger> EvaluationProgressLogger for ProfiledProgressLogger<L> {
    fn start_global_progress(&mut self, total_tests: usize) {
        let (logger, _scope) = self.measured();
        logger.start_global_progress(total_tests);
    }

    fn start_test(&mut self, name: &str, total_items: usize) {
        let (logger, _scope) = self.measured();
        logger.start_test(name, total_items);
    }

    fn update_test_progress(&mut self, items_processed: usize) {
        let (logger, _scope) = self.measured();
        logger.update_test_progress(items_processed);
    }

    fn end_test(&mut self) {
        let (logger, _scope) = self.measured();
        logger.end_test();
    }

    fn end_global_progress(&mut self) {
        let (logger, _scope) = self.measured();
        logger.end_global_progress();
    }

    fn log_event_evaluation(&mut self, event: String) {
        let (logger, _scope) = self.measured();
        logger.log_event_evaluation(event);
    }
}
