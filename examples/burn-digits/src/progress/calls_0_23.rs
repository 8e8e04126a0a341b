//! The callbacks that burn 0.23 calls during training and evaluation.

use burn::data::dataloader::Progress as Items;
use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};

use super::{Progress, Quiet};

impl TrainingProgressLogger for Progress {
    fn start(&mut self, epochs: usize, first: usize, _items: Option<usize>, _label: Option<&str>) {
        (self.epoch, self.epochs) = (first, epochs);
    }

    fn update_epoch(&mut self, epoch: usize) {
        let train = self.train.take(&self.names);
        let valid = self.valid.take(&self.names);
        self.say(&format!("epoch {epoch}/{}: train {train}; valid {valid}", self.epochs));
        self.epoch = epoch + 1;
    }

    fn start_split(&mut self, split: &str, items: &Items) {
        self.begin(split, items.total.unwrap_or(0));
    }

    fn update_split(&mut self, items: &Items) {
        self.advance(items.items_processed);
    }

    fn end_split(&mut self, _items: &Items) {}

    fn end(&mut self) {
        self.finish();
    }

    fn log_event_training(&mut self, _event: String) {}
}

impl EvaluationProgressLogger for Progress {
    fn start_global_progress(&mut self, _tests: usize) {}

    fn start_test(&mut self, name: &str, items: &Items) {
        self.begin(name, items.total.unwrap_or(0));
    }

    fn update_test_progress(&mut self, items: &Items) {
        self.advance(items.items_processed);
    }

    fn end_test(&mut self, _items: &Items) {
        let means = self.test.take(&self.names);
        self.say(&format!("{}: {means}", self.split));
    }

    fn end_global_progress(&mut self) {
        self.finish();
    }

    fn log_event_evaluation(&mut self, _event: String) {}
}

impl<F: FnMut() + Send + Sync> TrainingProgressLogger for Quiet<F> {
    fn start(&mut self, _: usize, _: usize, _: Option<usize>, _: Option<&str>) {}
    fn update_epoch(&mut self, _epoch: usize) {}
    fn start_split(&mut self, _split: &str, _items: &Items) {}
    fn update_split(&mut self, _items: &Items) {}
    fn end_split(&mut self, _items: &Items) {}
    fn end(&mut self) {}
    fn log_event_training(&mut self, _event: String) {}
}

impl<F: FnMut() + Send + Sync> EvaluationProgressLogger for Quiet<F> {
    fn start_global_progress(&mut self, _tests: usize) {}
    fn start_test(&mut self, _name: &str, _items: &Items) {}
    fn update_test_progress(&mut self, _items: &Items) {}
    fn end_test(&mut self, _items: &Items) {}
    fn end_global_progress(&mut self) {}
    fn log_event_evaluation(&mut self, _event: String) {}
}
