//! A profiler's requests to the training loop.

use std::cell::{Cell, OnceCell};

/// Requests of profilers to the training loop that sent this value in `Observation::Control`: to
/// end the training run, or to repeat the batch. The loop sends a new value at each point where it
/// can end. It reads the requests when the call returns, and ends the stage with an error if
/// requested.
///
/// # Examples
///
/// ```
/// use mlprof_events::TrainingControl;
///
/// let control = TrainingControl::new();
/// // … the loop sends it to its profiler, which may call:
/// control.stop("the loss is not finite");
/// assert_eq!(control.stop_reason(), Some("the loss is not finite"));
/// ```
#[derive(Debug, Default)]
pub struct TrainingControl {
    stop_reason: OnceCell<String>,
    can_rerun: bool,
    wants_rerun: Cell<bool>,
}

impl TrainingControl {
    /// Creates a value for a point at which the loop can end the training run.
    #[doc(hidden)]
    pub const fn new() -> Self {
        Self::at_point(false)
    }

    /// Creates a value for a point at which the loop can also repeat the batch with the same
    /// parameters. That is after the backward pass and before the optimizer's step.
    #[doc(hidden)]
    pub const fn with_rerun() -> Self {
        Self::at_point(true)
    }

    const fn at_point(can_rerun: bool) -> Self {
        Self { stop_reason: OnceCell::new(), can_rerun, wants_rerun: Cell::new(false) }
    }

    /// Requests that the loop ends the training run for `reason`. The first reason is kept.
    pub fn stop(&self, reason: impl Into<String>) {
        // A failure is ignored, because another profiler's earlier reason is kept.
        let _ = self.stop_reason.set(reason.into());
    }

    /// Returns the first profiler's reason to end the training run.
    #[doc(hidden)]
    pub fn stop_reason(&self) -> Option<&str> {
        self.stop_reason.get().map(String::as_str)
    }

    /// Consumes the value and returns the first profiler's reason to end the training run.
    #[doc(hidden)]
    pub fn into_stop_reason(self) -> Option<String> {
        self.stop_reason.into_inner()
    }

    /// Returns `true` if the loop can repeat the batch at this point.
    pub const fn can_rerun(&self) -> bool {
        self.can_rerun
    }

    /// Requests that the loop repeats the batch: the forward pass, and also the backward pass if
    /// the training run then ends. The loop sends `Observation::RerunEnd` afterwards. The request
    /// is ignored if the loop [cannot](Self::can_rerun) repeat the batch.
    pub fn rerun_batch(&self) {
        self.wants_rerun.set(self.can_rerun);
    }

    /// Returns `true` if a profiler has requested a repetition of the batch.
    #[doc(hidden)]
    pub const fn wants_rerun(&self) -> bool {
        self.wants_rerun.get()
    }
}

#[cfg(test)]
mod tests {
    use super::TrainingControl;

    #[test]
    fn the_first_reason_is_kept_and_a_batch_is_run_again_only_where_the_loop_can() {
        let control = TrainingControl::new();
        assert_eq!(control.stop_reason(), None);
        control.rerun_batch();
        assert!(!control.can_rerun() && !control.wants_rerun());
        control.stop("first");
        control.stop("second");
        assert_eq!(control.into_stop_reason().as_deref(), Some("first"));
        let control = TrainingControl::with_rerun();
        assert!(control.can_rerun() && !control.wants_rerun());
        control.rerun_batch();
        assert!(control.wants_rerun());
    }
}
