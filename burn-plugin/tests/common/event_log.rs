//! A progress logger that records burn's events in the notation of either burn version.

use std::sync::{Arc, Mutex, PoisonError};

use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};

/// The recorded events, one line per call. Clones share the lines.
#[derive(Clone, Default)]
pub struct EventLog(Arc<Mutex<Vec<String>>>);

impl EventLog {
    pub fn lines(&self) -> Vec<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn write(&self, line: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// The split methods, under the names used for training and evaluation.
#[cfg(not(burn_0_23))]
macro_rules! splits {
    ($start:ident, $update:ident, $end:ident) => {
        fn $start(&mut self, split: &str, total: usize) {
            self.write(format!("start {split}: {total}"));
        }

        fn $update(&mut self, items: usize) {
            self.write(format!("update: {items}"));
        }

        fn $end(&mut self) {
            self.write("end".to_owned());
        }
    };
}

/// The split methods, under the names used for training and evaluation.
#[cfg(burn_0_23)]
macro_rules! splits {
    ($start:ident, $update:ident, $end:ident) => {
        fn $start(&mut self, split: &str, progress: &burn::data::dataloader::Progress) {
            self.write(format!("start {split}: {progress:?}"));
        }

        fn $update(&mut self, progress: &burn::data::dataloader::Progress) {
            self.write(format!("update: {progress:?}"));
        }

        fn $end(&mut self, progress: &burn::data::dataloader::Progress) {
            self.write(format!("end: {progress:?}"));
        }
    };
}

impl TrainingProgressLogger for EventLog {
    splits!(start_split, update_split, end_split);

    fn start(&mut self, epochs: usize, first: usize, items: Option<usize>, label: Option<&str>) {
        self.write(format!("start: {epochs} epochs from {first}, {items:?}, {label:?}"));
    }

    fn update_epoch(&mut self, epoch: usize) {
        self.write(format!("epoch {epoch}"));
    }

    fn end(&mut self) {
        self.write("end of all".to_owned());
    }

    fn log_event_training(&mut self, event: String) {
        self.write(event);
    }
}

impl EvaluationProgressLogger for EventLog {
    splits!(start_test, update_test_progress, end_test);

    fn start_global_progress(&mut self, tests: usize) {
        self.write(format!("start: {tests} tests"));
    }

    fn end_global_progress(&mut self) {
        self.write("end of all".to_owned());
    }

    fn log_event_evaluation(&mut self, event: String) {
        self.write(event);
    }
}
