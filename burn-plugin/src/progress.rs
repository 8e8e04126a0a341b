//! Progress loggers whose calls are measured.

use burn::train::logger::{EvaluationProgressLogger, TrainingProgressLogger};
use mlprof_core::{Action, ActiveScope, Binding, Bound, Interest};

use crate::actions;

/// Defines methods that forward to the logger of `self.in_progress()`, inside the scope returned
/// with it.
macro_rules! hand_on {
    ($(fn $name:ident($($argument:ident: $type:ty),*);)*) => {$(
        fn $name(&mut self, $($argument: $type),*) {
            let (inner, _scope) = self.in_progress();
            inner.$name($($argument),*);
        }
    )*};
}

/// The methods of a measured [`TrainingProgressLogger`].
macro_rules! training_progress {
    () => {
        $crate::progress::hand_on! {
            fn start(
                total_epochs: usize,
                starting_epoch: usize,
                total_items: Option<usize>,
                label: Option<&str>
            );
            fn update_epoch(epoch: usize);
            fn end();
            fn log_event_training(event: String);
        }
        $crate::version::training_splits!($crate::progress::hand_on);
    };
}

/// The methods of a measured [`EvaluationProgressLogger`].
macro_rules! evaluation_progress {
    () => {
        $crate::progress::hand_on! {
            fn start_global_progress(total_tests: usize);
            fn end_global_progress();
            fn log_event_evaluation(event: String);
        }
        $crate::version::evaluation_splits!($crate::progress::hand_on);
    };
}

pub(crate) use {evaluation_progress, hand_on, training_progress};

/// A progress logger whose calls are measured as `[ProgressLogger].progress` on the thread where
/// burn calls it.
#[derive(Debug)]
pub struct ProfiledProgressLogger<L> {
    logger: L,
    action: Action,
    /// Binds the profiler to the event thread on which burn calls the logger.
    binding: Binding,
}

impl<L> ProfiledProgressLogger<L> {
    /// Creates a logger that measures `logger`.
    pub fn new(logger: L) -> Self {
        Self { logger, action: Action::new(actions::PROGRESS_LOGGER), binding: Binding::current() }
    }

    fn in_progress(&mut self) -> (&mut L, (ActiveScope, Bound)) {
        let bound = self.binding.bind();
        let scope = ActiveScope::open(|| self.action, Interest::ACTIONS);
        (&mut self.logger, (scope, bound))
    }
}

impl<L: TrainingProgressLogger> TrainingProgressLogger for ProfiledProgressLogger<L> {
    training_progress!();
}

impl<L: EvaluationProgressLogger> EvaluationProgressLogger for ProfiledProgressLogger<L> {
    evaluation_progress!();
}
